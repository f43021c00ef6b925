"""π0 and π0.5 with PTR: what their processors and checkpoints do differently."""

from __future__ import annotations

import logging

import pytest
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_policy_config
from safetensors.torch import load_file, save_file

from ptr_robot.data.lerobot.compat import is_lerobot06
from ptr_robot.errors import ConfigError
from tests.lerobot.small_policies import (
    ACTION,
    ACTION_DIM,
    BATCH,
    PI0,
    PI05,
    STATE,
    STATE_DIM,
    base_batch,
    make_batch,
    make_config,
    make_pair,
)
from tests.lerobot.tiny_paligemma import write_tokenizer

both = pytest.mark.parametrize("kind", [PI0, PI05], ids=["pi0", "pi05"])
needs_lerobot06 = pytest.mark.skipif(not is_lerobot06(), reason="π0 of LeRobot 0.4 needs a patched transformers")
TOKENS = "observation.language.tokens"


@pytest.fixture
def tokenizer_here(tmp_path, monkeypatch):
    write_tokenizer(tmp_path)
    monkeypatch.chdir(tmp_path)


def processed(config, batch):
    """A raw batch through the preprocessor that LeRobot makes for the config."""
    from lerobot.policies.factory import make_pre_post_processors

    numbers = {"q01": -1.0, "q99": 1.0, "min": -1.0, "max": 1.0, "mean": 0.0, "std": 1.0}
    dims = {STATE: STATE_DIM, ACTION: ACTION_DIM}
    stats = {key: {name: torch.full((dim,), value) for name, value in numbers.items()} for key, dim in dims.items()}
    preprocess, _ = make_pre_post_processors(config, dataset_stats=stats)
    raw = {key: value for key, value in batch.items() if "language" not in key}
    return preprocess({**raw, STATE: raw[STATE].clamp(-1, 1), "task": ["push the puck"] * BATCH})


@needs_lerobot06
@both
@pytest.mark.parametrize("is_relative", [False, True], ids=["absolute", "relative"])
def test_prompt_and_actions_are_made_of_the_present_state(kind, is_relative, tokenizer_here):
    config, base = make_config(kind), make_config(kind, type=kind.base)
    get_policy_class(kind.type)  # as lerobot-train does before it makes the processors
    make_pair(kind)
    config.use_relative_actions = base.use_relative_actions = is_relative
    batch = make_batch(kind, config)
    future = batch[STATE].clone()
    future[:, 1] = torch.linspace(-0.9, 0.9, STATE_DIM)
    first, second = processed(config, batch), processed(config, batch | {STATE: future})
    expected = processed(base, base_batch(kind, config, batch))
    for key in (TOKENS, ACTION):
        torch.testing.assert_close(second[key], first[key], rtol=0, atol=0)
        torch.testing.assert_close(first[key], expected[key], rtol=0, atol=0)
    assert first[STATE].shape == (BATCH, 2, STATE_DIM)
    assert not torch.equal(first[STATE][:, 1], second[STATE][:, 1])
    other = batch[STATE].clone()
    other[:, 0] = 0.5
    changed = processed(config, batch | {STATE: other})
    assert torch.equal(changed[TOKENS], first[TOKENS]) == (kind is PI0)  # only π0.5 writes the state into the prompt
    assert torch.equal(changed[ACTION], first[ACTION]) == (not is_relative)


@needs_lerobot06
@both
def test_several_chunks_are_refused_where_the_processor_knows_one_present(kind):
    if kind is PI05:
        with pytest.raises(ConfigError, match="ptr_pi05 needs 1"):
            make_config(kind, num_chunks=2)
        return
    make_config(kind, num_chunks=2)
    with pytest.raises(ConfigError, match="ptr_pi0 needs 1"):
        make_policy_config("ptr_pi0", device="cpu", use_relative_actions=True, ptr=make_config(kind, num_chunks=2).ptr)


@needs_lerobot06
@both
@pytest.mark.parametrize("prefix", ["model.", ""], ids=["LeRobot's names", "openpi's names"])
def test_a_base_checkpoint_loads_and_ptr_starts_afresh(kind, prefix, tmp_path, caplog):
    policy, base = make_pair(kind)
    with torch.no_grad():
        for parameter in base.parameters():
            parameter.add_(0.01)
    base.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save_file(
        {prefix + name.removeprefix("model."): value for name, value in tensors.items()},
        tmp_path / "model.safetensors",
        metadata={"format": "pt"},
    )
    with caplog.at_level(logging.INFO):
        loaded = get_policy_class(kind.type).from_pretrained(tmp_path, config=policy.config, strict=True)
    assert "PTR starts afresh" in caplog.text
    values = loaded.state_dict()
    for name, value in base.state_dict().items():
        torch.testing.assert_close(values[name], value, rtol=0, atol=0)


@needs_lerobot06
@both
def test_its_own_checkpoint_holds_all_of_it(kind, tmp_path):
    policy, _ = make_pair(kind)
    policy(make_batch(kind, policy.config))[0].backward()
    policy.update()
    policy.save_pretrained(tmp_path)
    loaded = get_policy_class(kind.type).from_pretrained(tmp_path, strict=True)
    assert loaded.ptr.method.step == 1
    values = loaded.state_dict()
    for name, value in policy.state_dict().items():
        torch.testing.assert_close(values[name], value, rtol=0, atol=0)


@pytest.mark.skipif(is_lerobot06(), reason="LeRobot 0.6 has both")
@both
def test_an_older_lerobot_is_named(kind):
    with pytest.raises(ConfigError, match=rf"{kind.type} needs LeRobot 0.6 \(Python 3.12 or later\)"):
        PreTrainedConfig.get_choice_class(kind.type)(device="cpu")
