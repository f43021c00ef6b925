"""Meta-World as an environment that commands name: ``--env.type=metaworld``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from ptr_robot.envs.base import CameraConfig, EnvironmentType, StepLimits, VectorFeature
from ptr_robot.envs.metaworld.environment import (
    ACTION_DIM,
    DEFAULT_CAMERAS,
    ENVIRONMENT_STATE_DIM,
    ENVIRONMENT_STATE_KEY,
    MAX_STEPS,
    STATE_DIM,
    STATE_KEY,
    TITLE,
    MetaWorldEnvironment,
)
from ptr_robot.envs.metaworld.expert import ARM, MetaWorldExpert
from ptr_robot.envs.metaworld.rendering import IS_UPSIDE_DOWN
from ptr_robot.envs.metaworld.tasks import instructions, resolve_task
from ptr_robot.envs.scripted import ScriptedRobot

_HAND = ("x", "y", "z", "gripper")


class MetaWorld(EnvironmentType):
    """Fifty tasks of one arm at a table; layouts are drawn by seed."""

    name = "metaworld"
    title = TITLE
    libraries = ("metaworld", "mujoco")
    frames_per_second = 80
    states: ClassVar = {
        STATE_KEY: VectorFeature(STATE_DIM, _HAND),
        ENVIRONMENT_STATE_KEY: VectorFeature(ENVIRONMENT_STATE_DIM),
    }
    action = VectorFeature(ACTION_DIM, _HAND)
    cameras: ClassVar = {name: f"observation.images.{name}" for name in IS_UPSIDE_DOWN}
    default_cameras = DEFAULT_CAMERAS.names
    default_tasks = ("reach-v3", "push-v3", "pick-place-v3")
    study_state = ENVIRONMENT_STATE_KEY
    study_robot = "metaworld_objects"
    robots_folder = Path(__file__).parent / "robots"

    def resolve_task(self, name: str) -> tuple[str, ...]:
        """The task; its version may be left out (``reach`` is ``reach-v3``)."""
        return (resolve_task(name),)

    def instruction(self, task: str) -> str:
        """As LeRobot words it."""
        return instructions()[task]

    def task_title(self, task: str) -> str:
        """Without its version, which is the same for all."""
        return task.removesuffix("-v3")

    def step_limits(self, task: str) -> StepLimits:  # noqa: ARG002 (the same for all)
        """LeRobot's environment stops after 400 steps, Meta-World's simulator after 500."""
        return StepLimits(usual=400, most=MAX_STEPS)

    def make(self, task: str, cameras: CameraConfig) -> MetaWorldEnvironment:
        """One task."""
        return MetaWorldEnvironment(task, self.check_cameras(cameras))

    @property
    def scripted(self) -> ScriptedRobot:
        """Meta-World's policies as experts."""
        return ScriptedRobot(ARM, MetaWorldExpert)
