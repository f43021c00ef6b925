"""Presets: their sizes by closed formula, their names, their way through JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from ptr_robot.errors import ConfigError
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation
from ptr_robot.policy.vla.config import HEADS, PolicyConfig
from ptr_robot.policy.vla.policy import MixturePolicy
from ptr_robot.policy.vla.presets import PRESETS, preset

STREAMS = [("und", 2048, 6144), ("gen", 1024, 3072)]


def count(module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def qwen3_size(width: int, mlp: int, *, layers: int, heads: int, shared: int, head_dim: int, vocabulary: int) -> int:
    """Parameters of a Qwen3 model without its tied output layer, from its published configuration."""
    attention = width * head_dim * (heads + 2 * shared) + heads * head_dim * width + 2 * head_dim
    return vocabulary * width + layers * (attention + 3 * width * mlp + 2 * width) + width


def internvit_size(*, width: int, layers: int, mlp: int, patch: int, patches: int) -> int:
    """Parameters of InternViT-300M: LayerNorm blocks with biases and layer scale, no final norm."""
    attention = (width * 3 * width + 3 * width) + (width * width + width)
    feed_forward = 2 * width * mlp + mlp + width
    block = attention + feed_forward + 2 * (2 * width) + 2 * width
    embedding = 3 * patch**2 * width + width + width + (patches + 1) * width
    return layers * block + embedding


def linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def test_being_h05_has_the_papers_sizes():
    with torch.device("meta"):
        policy = MixturePolicy(preset("being-h05"))
    shape = {"layers": 28, "heads": 16, "shared": 8, "head_dim": 128}
    und = qwen3_size(2048, 6144, vocabulary=151936, **shape)
    gen = qwen3_size(1024, 3072, vocabulary=0, **shape)
    tower = internvit_size(width=1024, layers=24, mlp=4096, patch=14, patches=16 * 16)
    connector = 2 * 4096 + linear(4096, 2048) + linear(2048, 2048)
    state = linear(200, 1024) + linear(1024, 1024)
    head = linear(200, 1024) + linear(2048, 1024) + linear(1024, 1024) + linear(1024, 1024) + linear(1024, 200)
    assert count(policy.trunk.und) == und == 1_720_574_976  # Qwen3-1.7B
    assert count(policy.trunk.gen) == gen == 596_049_920 - 151936 * 1024  # Qwen3-0.6B, its embeddings left out
    assert count(policy.vision.tower) == tower
    assert count(policy) == und + gen + tower + connector + state + head
    assert all(parameter.device.type == "meta" for parameter in policy.parameters())
    assert policy.sizes.context_dim == 3072


def test_being_h05_runs_on_the_meta_device():
    """Shapes and counted operations of the paper's sizes, without a byte of weights."""
    config = preset("being-h05")
    config = dataclasses.replace(
        config,
        language=dataclasses.replace(config.language, tokenizer="bytes", prompt=""),
        trunk=dataclasses.replace(config.trunk, checkpoint_activations=False),
    )
    ones = torch.ones(2, 200, dtype=torch.bool, device="meta")
    with torch.device("meta"):
        policy = MixturePolicy(config)
        images = torch.zeros(2, 1, 3, 224, 224, dtype=torch.uint8)
        view_mask = torch.ones(2, 1, dtype=torch.bool)
        observation = Observation(images, view_mask, torch.zeros(2, 200), ones, ones, ("reach", "push"))
        chunk = ActionChunk(torch.zeros(2, 16, 200), action_is_pad=torch.zeros(2, 16, dtype=torch.bool))
        belief = torch.zeros(2, 4, 1024)
        noise = Noise(torch.zeros(2, dtype=torch.int64))
    with FlopCounterMode(display=False) as counter:
        output = policy.forward_chunk(observation, chunk, belief, noise=noise)
    assert output.contexts.shape == (2, 3072)
    assert output.action_states.shape == (2, 16, 1024)
    layers = {name: 28 * (part + 3 * width * mlp) for name, part, width, mlp in _attention_sizes()}
    tokens = {
        "und": 1 + 64 + 5,
        "gen": 1 + 4 + 16,
    }  # start, one view, text padded to the longest; state, belief, actions
    trunk = sum(2 * 2 * tokens[name] * layers[name] for name in tokens)
    tower = 2 * 2 * 257 * 24 * 12 * 1024**2
    assert trunk + tower < counter.get_total_flops() < 1.05 * (trunk + tower)


def _attention_sizes() -> list[tuple[str, int, int, int]]:
    """Weights of a layer's attention, and the sides of its MLP, for each stream."""
    return [(name, width * 128 * (16 + 8 + 8 + 16), width, mlp) for name, width, mlp in STREAMS]


@pytest.mark.parametrize(("name", "low", "high"), [("tiny", 1e6, 3e6), ("tiny-state", 5e5, 2e6), ("small", 2e7, 6e7)])
def test_small_presets_have_the_size_they_promise(name, low, high):
    with torch.device("meta"):
        assert low < count(MixturePolicy(preset(name))) < high


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", sorted(PRESETS))
def test_configs_survive_json(name, head):
    config = dataclasses.replace(preset(name), head=head)
    assert PolicyConfig.from_dict(json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_misspelt_names_get_a_suggestion():
    with pytest.raises(ConfigError, match="no policy preset 'tinny'; did you mean 'tiny'"):
        preset("tinny")
    values = dataclasses.asdict(preset("tiny"))
    values["trunk"]["num_layer"] = 3
    with pytest.raises(ConfigError, match="trunk has no field 'num_layer'; did you mean 'num_layers'"):
        PolicyConfig.from_dict(values)
    values = dataclasses.asdict(preset("tiny"))
    del values["trunk"]["context"]
    with pytest.raises(ConfigError, match=r"trunk: .*context"):
        PolicyConfig.from_dict(values)
