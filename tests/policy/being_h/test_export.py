"""A policy goes back into the released layout tensor by tensor, LoRA merged, what it left out from its base."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file

from ptr_robot.errors import ConfigError
from ptr_robot.policy.being_h.adapters import add_adapters, merged_state
from ptr_robot.policy.being_h.config import LoraConfig
from ptr_robot.policy.being_h.export import export_released, unlike_released
from ptr_robot.policy.being_h.load import load_released
from tests.policy.being_h.conftest import read_case


@pytest.fixture
def policy(checkpoint):
    return load_released(checkpoint).policy


def test_what_was_loaded_comes_back_bit_by_bit(policy, checkpoint, tmp_path):
    folder = export_released(policy, tmp_path / "out")
    before, after = load_file(checkpoint / "model.safetensors"), load_file(folder / "model.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor), name
    assert {file.name for file in folder.iterdir()} == {file.name for file in checkpoint.iterdir()}


def test_a_trained_policy_has_every_key_and_shape(policy, reference, tmp_path):
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.01)
    folder = export_released(policy, tmp_path / "out", dtype=torch.bfloat16)
    tensors = load_file(folder / "model.safetensors")
    keys = json.loads((reference / "keys.json").read_text())
    assert {name: list(tensor.shape) for name, tensor in tensors.items()} == keys
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    again = load_released(folder).policy.state_dict()
    for name, tensor in policy.state_dict().items():
        assert torch.equal(again[name], tensor.bfloat16().float()), name


def test_lora_starts_as_the_policy_and_is_merged(policy, reference, tmp_path):
    case = read_case(reference, "libero_one_view")
    before = policy.predict(case.observation, noise=case.sampling_noise).actions
    add_adapters(policy, LoraConfig(rank=4))
    assert torch.equal(policy.predict(case.observation, noise=case.sampling_noise).actions, before)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)
    trained = policy.predict(case.observation, noise=case.sampling_noise).actions
    assert not torch.allclose(trained, before, atol=1e-3)
    exported = load_released(export_released(policy, tmp_path / "out")).policy
    merged = exported.predict(case.observation, noise=case.sampling_noise).actions
    torch.testing.assert_close(merged, trained, rtol=0, atol=1e-4)
    assert not any(".lora_" in name or ".base_layer." in name for name in merged_state(policy))


def test_lora_trains_updates_and_small_parts_alone(policy):
    add_adapters(policy, LoraConfig(rank=4))
    trained = {name for name, parameter in policy.named_parameters() if parameter.requires_grad}
    assert all(".lora_" in name for name in trained if name.startswith("trunk."))
    assert {name.split(".")[0] for name in trained} == {"trunk", "vision", "state_embedder", "head"}
    assert not any(name.startswith("vision.tower.") for name in trained)
    assert not any(name.startswith("trunk.und.layers.2.mlp") for name in trained)  # of the last layer nothing is read
    for stream in ("und", "gen"):
        assert any(name.startswith(f"trunk.{stream}.layers.0.self_attn.q_proj.lora_A") for name in trained)


def test_the_base_is_needed_and_checked(policy, checkpoint, tmp_path):
    with pytest.raises(ConfigError, match=r"name the one that the policy came from"):
        export_released(policy, tmp_path / "out", base=tmp_path)
    with pytest.raises(ConfigError, match="exists already"):
        export_released(policy, tmp_path, base=checkpoint)
    assert not list(tmp_path.iterdir())


def test_what_the_released_layout_cannot_say_is_named(policy):
    assert unlike_released(policy.config) == []
    flow = dataclasses.replace(policy.config.flow, every_slot=False)
    config = dataclasses.replace(policy.config, attention="paper", context_sees_state=False, flow=flow)
    assert unlike_released(config) == [
        "policy.attention=paper",
        "policy.context_sees_state=false",
        "policy.unused_slots=zero",
    ]
