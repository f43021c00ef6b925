"""A small policy for Meta-World, saved as a training run saves it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from ptr_robot.data.robots import load_robot
from ptr_robot.data.robots.normalisers import Normaliser
from ptr_robot.data.robots.slots import SlotMap
from ptr_robot.data.segments.source import UnifiedMap
from ptr_robot.envs.libero.installation import ASSETS_VARIABLE
from ptr_robot.method.ptr.belief import BeliefTokenizer
from ptr_robot.method.ptr.config import BeliefConfig
from ptr_robot.policy.vla.policy import build_policy
from ptr_robot.train.sources import SourceRecord
from ptr_robot.train.trained import TrainedPolicy, save_trained
from tests.data.conftest import g1 as g1
from tests.policy.conftest import small_config

CAMERA_KEY = "observation.images.corner2"


def identity_map(slots: SlotMap) -> UnifiedMap:
    return UnifiedMap(slots, Normaliser(np.zeros(slots.size), np.ones(slots.size), np.zeros(slots.size, dtype=bool)))


def make_trained(robot_name: str = "metaworld", cameras: tuple[str | None, ...] = (CAMERA_KEY,)) -> TrainedPolicy:
    robot = load_robot(robot_name)
    source = SourceRecord(
        name="somebody/demonstrations",
        robot=robot.name,
        fps=80.0,
        state_map=identity_map(robot.state),
        action_map=identity_map(robot.action),
        cameras=cameras,
        image_size=32,
        resize="pad",
        tasks=("push the puck",),
    )
    policy = build_policy(small_config(), seed=0).eval()
    width = policy.config.trunk.action.width
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        belief = BeliefTokenizer(BeliefConfig(num_tokens=3), state_dim=width, action_dim=width).eval()
    return TrainedPolicy(policy=policy, belief=belief, sources=(source,))


def save_run(trained: TrainedPolicy, run: Path) -> Path:
    """A run folder with one checkpoint, which ``last`` points at."""
    (run / "checkpoints" / "000001").mkdir(parents=True)
    save_trained(trained, run / "checkpoints" / "000001" / "pretrained_model")
    (run / "checkpoints" / "last").symlink_to("000001")
    return run


@pytest.fixture(scope="session")
def trained() -> TrainedPolicy:
    return make_trained()


@pytest.fixture(scope="session")
def saved_run(trained: TrainedPolicy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(trained, tmp_path_factory.mktemp("study") / "run")


@pytest.fixture(scope="session")
def other_run(tmp_path_factory: pytest.TempPathFactory):
    """Makes a run of another robot or with other cameras."""

    def make(**changes) -> Path:
        return save_run(make_trained(**changes), tmp_path_factory.mktemp("study") / "other")

    return make


@pytest.fixture
def libero_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LIBERO can be simulated here."""
    if importlib.util.find_spec("libero") is None:
        pytest.skip("hf-libero is not installed (make libero)")
    if ASSETS_VARIABLE not in os.environ:
        pytest.skip(f"{ASSETS_VARIABLE} names no folder of LIBERO's assets")
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(tmp_path / "libero"))
