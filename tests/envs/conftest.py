"""Environments and datasets that several tests look at; each is made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptr_robot.envs.base import CameraConfig
from ptr_robot.envs.collection import PlannedDemonstration, plan_episodes, resolve_mixture
from ptr_robot.envs.metaworld.environment import MetaWorldEnvironment
from ptr_robot.envs.metaworld.environment_type import MetaWorld
from ptr_robot.envs.operators import OPERATORS
from ptr_robot.envs.recording import RecordedEpisode, RecordingConfig, record

CAMERA = "corner2"
SMALL_CAMERA = CameraConfig((CAMERA,), 32)
METAWORLD = MetaWorld()


@pytest.fixture(scope="session")
def reach() -> MetaWorldEnvironment:
    return MetaWorldEnvironment("reach", SMALL_CAMERA)


@pytest.fixture(scope="session")
def pick_place() -> MetaWorldEnvironment:
    return MetaWorldEnvironment("pick-place", SMALL_CAMERA)


@pytest.fixture(scope="session")
def plan() -> tuple[PlannedDemonstration, ...]:
    mixture = resolve_mixture({"brisk": 1, "jittery": 1, "fumbling": 1}, OPERATORS, None)
    return plan_episodes(["reach-v3"], 3, mixture, seed=5)


@pytest.fixture(scope="session")
def recorded(
    plan: tuple[PlannedDemonstration, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[RecordedEpisode]]:
    """A dataset with images, simulated by two processes."""
    root = tmp_path_factory.mktemp("sim") / "images"
    return root, record(root, plan, METAWORLD, RecordingConfig(SMALL_CAMERA, num_workers=2))
