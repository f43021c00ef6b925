"""LeRobot's own ``lerobot-train`` with policies of the plug-in."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.lerobot.small_policies import PIS, tiny_vlm
from tests.lerobot.stock_commands import (
    SMALL_ACT,
    SMALL_DIFFUSION,
    SMALL_PI,
    SMALL_PTR,
    SMALL_SMOLVLA,
    load,
    train,
    train_flags,
)
from tests.lerobot.tiny_paligemma import write_tokenizer

try:
    importlib.metadata.distribution("lerobot_policy_ptr")
except importlib.metadata.PackageNotFoundError:
    pytest.skip("the plug-in lerobot_policy_ptr is not installed; make install does it", allow_module_level=True)

TINY_RESNET = "--policy.vision_backbone=resnet10"  # which small_policies adds to torchvision


def model(output: Path, step: str) -> dict[str, torch.Tensor]:
    return load_file(output / "checkpoints" / step / "pretrained_model" / "model.safetensors")


def small(kind: str) -> tuple[str, ...]:
    return {
        "ptr_act": (*SMALL_ACT, TINY_RESNET),
        "ptr_diffusion": (*SMALL_DIFFUSION, TINY_RESNET),
        "ptr_vla": ("--policy.type=ptr_vla", "--policy.chunk_size=6", "--policy.n_action_steps=6"),
        "ptr_smolvla": (*SMALL_SMOLVLA, f"--policy.vlm_model_name={tiny_vlm()}"),
        "ptr_pi0": ("--policy.type=ptr_pi0", *SMALL_PI),
        "ptr_pi05": ("--policy.type=ptr_pi05", *SMALL_PI),
    }[kind]


@pytest.mark.parametrize(
    "kind", ["ptr_act", "ptr_diffusion", "ptr_smolvla", "ptr_vla", *(["ptr_pi0", "ptr_pi05"] if PIS else [])]
)
def test_trains_saves_and_acts(kind, dataset, tmp_path, monkeypatch):
    if "pi" in kind:
        write_tokenizer(tmp_path)
        monkeypatch.chdir(tmp_path)
    output = tmp_path / "run"
    train(monkeypatch, train_flags(dataset, output, *small(kind), *SMALL_PTR))
    folder = output / "checkpoints" / "000002" / "pretrained_model"
    config = json.loads((folder / "config.json").read_text())
    assert config["type"] == kind
    assert config["ptr"]["weights"]["warmup_steps"] == 1
    saved = model(output, "000002")
    assert int(saved["ptr.method._extra_state"]) == 2
    policy = load(folder)
    assert policy.ptr.method.step == 2
    observation = {
        "observation.state": torch.zeros(1, 4),
        "observation.images.top": torch.rand(1, 3, 48, 48),
        "task": ["push the puck"],
        "observation.language.tokens": torch.full((1, 2), 9),
        "observation.language.attention_mask": torch.ones(1, 2, dtype=torch.bool),
    }
    assert policy.select_action(observation).shape == (1, 4)


def test_a_resumed_run_goes_on_where_it_stopped(dataset, tmp_path, monkeypatch):
    output = tmp_path / "run"
    train(monkeypatch, train_flags(dataset, output, *small("ptr_act"), *SMALL_PTR))
    first = model(output, "000001")
    queue = "ptr.method.pool.queue.targets"
    assert int(first["ptr.method._extra_state"]) == 1
    config = output / "checkpoints" / "000001" / "pretrained_model" / "train_config.json"
    (output / "checkpoints" / "last").unlink()
    (output / "checkpoints" / "last").symlink_to("000001")
    train(monkeypatch, [f"--config_path={config}", "--resume=true", "--steps=3"])
    resumed = model(output, "000003")
    assert int(resumed["ptr.method._extra_state"]) == 3
    kept = first[queue].abs().sum(dim=1) > 0
    torch.testing.assert_close(resumed[queue][kept], first[queue][kept])  # what the queue held, it still holds
    assert (resumed[queue].abs().sum(dim=1) > 0).sum() > kept.sum()


@pytest.mark.parametrize("kind", ["ptr_act", "ptr_diffusion"])
def test_chosen_episodes(kind, dataset, tmp_path, monkeypatch):
    flags = train_flags(dataset, tmp_path / "run", *small(kind), *SMALL_PTR, "--dataset.episodes=[2,3]", steps=3)
    train(monkeypatch, flags)
    saved = model(tmp_path / "run", "000003")
    is_filled = saved["ptr.method.pool.queue.targets"].any(dim=1)
    assert is_filled.any()
    assert (saved["ptr.method.pool.queue.sample_ids"][is_filled] >= 14 + 12).all()  # where the third episode starts


def test_a_base_checkpoint_is_the_start(dataset, tmp_path, monkeypatch, caplog):
    base = [flag.replace("ptr_act", "act") for flag in small("ptr_act")]
    train(monkeypatch, train_flags(dataset, tmp_path / "base", *base, steps=1))
    start = tmp_path / "base" / "checkpoints" / "000001" / "pretrained_model"
    flags = [*small("ptr_act"), *SMALL_PTR, f"--policy.pretrained_path={start}", "--policy.optimizer_lr=0"]
    train(monkeypatch, train_flags(dataset, tmp_path / "run", *flags, "--policy.optimizer_lr_backbone=0", steps=1))
    before, after = load_file(start / "model.safetensors"), model(tmp_path / "run", "000001")
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, rtol=0, atol=0)
    tower = "ptr.method.target_encoder.tower.conv1.weight"
    torch.testing.assert_close(after[tower], before["model.backbone.conv1.weight"])


@pytest.mark.slow
def test_the_command_itself_finds_the_plugin(dataset, tmp_path):
    """In a process of its own, with the smallest backbone that torchvision has."""
    command = Path(sys.executable).with_name("lerobot-train")
    flags = train_flags(dataset, tmp_path / "run", *SMALL_ACT, *SMALL_PTR, steps=1)
    done = subprocess.run([command, *flags], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(model(tmp_path / "run", "000001")["ptr.method._extra_state"]) == 1
    assert "belief tokens are off" in done.stderr + done.stdout
