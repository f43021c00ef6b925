"""The real G1 demonstrations through stock ``lerobot-train``, as they are and after ``ptr corrupt``.

Prints the weights that were found (``-s`` shows them); whether noisy episodes weigh less is reported, not demanded: it
takes more steps than a test has. ``PTR_ROBOT_G1_STEPS=200`` takes as many.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from ptr_robot.cli import corrupt
from ptr_robot.data.ground_truth import read_ground_truth
from tests.lerobot.small_g1 import episode_weights, write_small_g1
from tests.lerobot.stock_commands import train, train_flags

STEPS = int(os.environ.get("PTR_ROBOT_G1_STEPS", "4"))
EVERY = 300 if STEPS < 50 else 10  # frames between those that are weighed
ACT = ("--policy.type=ptr_act", "--policy.dim_model=64", "--policy.n_heads=4", "--policy.dim_feedforward=128")
ACT += ("--policy.n_encoder_layers=2", "--policy.n_vae_encoder_layers=1", "--policy.latent_dim=8")
ACT += ("--policy.pretrained_backbone_weights=null", "--policy.optimizer_lr_backbone=1e-4")
VLA = ("--policy.type=ptr_vla", "--policy.preset=tiny")
EVERY_POLICY = ("--policy.chunk_size=16", "--policy.n_action_steps=16", "--policy.optimizer_lr=1e-4", "--batch_size=8")
EVERY_POLICY += (f"--policy.ptr.weights.warmup_steps={STEPS // 2}", f"--save_freq={STEPS}", "--log_freq=20")
EVERY_POLICY += ("--dataset.video_backend=pyav",)  # torchcodec needs FFmpeg's libraries


@pytest.fixture(scope="module")
def small_g1(tmp_path_factory) -> Path:
    source = os.environ.get("PTR_ROBOT_G1_DATASET")
    if not source:
        pytest.skip("PTR_ROBOT_G1_DATASET is not set: it names the folder of the real G1 demonstrations")
    return write_small_g1(Path(source), tmp_path_factory.mktemp("g1") / "as_it_is")


@pytest.fixture(scope="module")
def noisy_g1(small_g1) -> Path:
    output = small_g1.with_name("noisy")
    assert corrupt.main([str(small_g1), f"--output_dir={output}", "--kind=ani", "--sigma=1.0"]) == 0
    return output


@pytest.mark.slow
@pytest.mark.parametrize("flags", [ACT, VLA], ids=["act", "vla"])
@pytest.mark.parametrize("name", ["small_g1", "noisy_g1"])
def test_trains_on_real_demonstrations(name, flags, request, tmp_path, monkeypatch, record_property):
    dataset = request.getfixturevalue(name)
    train(monkeypatch, train_flags(dataset, tmp_path / "run", *flags, *EVERY_POLICY, steps=STEPS))
    weights = episode_weights(tmp_path / "run" / "checkpoints" / "last" / "pretrained_model", EVERY)
    assert len(weights) == 20
    assert ((weights > 0) & weights.isfinite()).all()
    assert weights.std() > 0  # the warm-up, in which all weigh 1, is over
    is_noisy = torch.zeros(20, dtype=torch.bool)
    if name == "noisy_g1":
        is_noisy[[episode for episode, truth in read_ground_truth(dataset).items() if truth.is_faulty]] = True
        assert is_noisy.sum() == 6
    report = f"{flags[0]}, {name}, {STEPS} steps: mean weight {weights[~is_noisy].mean():.3f} of untouched episodes"
    if is_noisy.any():
        lighter = (weights[is_noisy, None] < weights[~is_noisy]).float().mean()
        report += f", {weights[is_noisy].mean():.3f} of noisy ones, which weigh less in {lighter:.0%} of pairs"
    record_property("weights", report)
    sys.stdout.write(f"\n{report}\n")
