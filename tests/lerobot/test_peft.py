"""Low-rank adapters: the base policy is frozen, PTR's heads are not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

from ptr_robot.data.lerobot.compat import is_lerobot06
from ptr_robot.errors import ConfigError
from ptr_robot.lerobot.deployed import DeployedLeRobotPolicy
from ptr_robot.lerobot.saved import load_saved
from tests.lerobot.saved_policies import observation, save_policy, statistics
from tests.lerobot.small_policies import SMOLVLA, make_batch, make_pair

peft = pytest.importorskip("peft")


@pytest.fixture
def pretrained(tmp_path):
    """A policy that begins with a checkpoint, as LeRobot asks of adapters."""
    policy, base = make_pair(SMOLVLA)
    base.save_pretrained(tmp_path / "base")
    policy.config.pretrained_path = tmp_path / "base"
    return policy


def adapted(policy, **overrides):
    targets = {} if is_lerobot06() else {"target_modules": r"model\.vlm_with_expert\.lm_expert\..*\.(q|v)_proj"}
    return policy.wrap_with_peft(peft_cli_overrides={"method_type": "lora", "r": 2} | targets | overrides)


def test_heads_learn_and_the_base_does_not(pretrained):
    wrapped = adapted(pretrained).train()
    for name, parameter in wrapped.named_parameters():
        is_head = ".modules_to_save.default." in name and "target_encoder" not in name
        assert parameter.requires_grad == (is_head or "lora_" in name), name
    heads = dict(pretrained.ptr.method.scorer.named_parameters())
    before = {name: parameter.detach().clone() for name, parameter in heads.items()}
    groups = [group | {"lr": 0.1} for group in pretrained.get_optim_params()]
    optimizer = torch.optim.SGD(groups)
    for seed in range(2):
        optimizer.zero_grad()
        wrapped(make_batch(SMOLVLA, pretrained.config, seed=seed))[0].backward()
        optimizer.step()
        wrapped.update()
    assert all(not torch.equal(parameter, before[name]) for name, parameter in heads.items())
    assert pretrained.ptr.method.step == 2


def test_a_saved_adapter_brings_ptr_back(pretrained, tmp_path):
    wrapped = adapted(pretrained).train()
    wrapped(make_batch(SMOLVLA, pretrained.config))[0].backward()
    wrapped.update()
    wrapped.save_pretrained(tmp_path / "adapter")
    again = get_policy_class("ptr_smolvla").from_pretrained(tmp_path / "base", config=pretrained.config)
    loaded = peft.PeftModel.from_pretrained(again, tmp_path / "adapter", is_trainable=True)
    assert loaded.ptr.method.step == 1
    queue = loaded.ptr.method.pool.queue.targets
    assert queue.any()
    torch.testing.assert_close(queue, pretrained.ptr.method.pool.queue.targets)


def test_a_saved_adapter_acts(pretrained, tmp_path):
    wrapped = adapted(pretrained).eval()
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_" in name:
                parameter.normal_()
    wrapped.save_pretrained(tmp_path / "adapter")
    pretrained.config.use_peft = True
    pretrained.config.save_pretrained(tmp_path / "adapter")
    for processor in make_pre_post_processors(pretrained.config, dataset_stats=statistics()):
        processor.save_pretrained(tmp_path / "adapter")
    chunks = []
    for folder in ("adapter", "base"):
        if folder == "base":
            save_policy(SMOLVLA, tmp_path / "base", is_base=True)
        deployed = DeployedLeRobotPolicy.load(tmp_path / folder)
        deployed.reset(0, seed=0)
        chunks.append(deployed.act([0], [observation()])[0])
    assert not np.allclose(*chunks)
    saved = load_saved(tmp_path / "adapter")
    values = {name: value for name, value in saved.policy.state_dict().items() if "lora_" in name}
    assert values
    for name, value in values.items():
        torch.testing.assert_close(value, pretrained.state_dict()[name], rtol=0, atol=0)


def test_adapters_in_the_vision_tower_are_refused(pretrained):
    with pytest.raises(ConfigError, match="reach into the vision tower"):
        adapted(pretrained, target_modules=["q_proj"])
