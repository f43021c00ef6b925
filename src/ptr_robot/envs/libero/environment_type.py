"""LIBERO as an environment that commands name: ``--env.type=libero``."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from ptr_robot.envs.base import CameraConfig, EnvironmentType, StepLimits, VectorFeature
from ptr_robot.envs.libero.environment import (
    ACTION_DIM,
    ENVIRONMENT_STATE_DIM,
    ENVIRONMENT_STATE_KEY,
    FRAMES_PER_SECOND,
    STATE_DIM,
    STATE_KEY,
    TITLE,
    LiberoEnvironment,
)
from ptr_robot.envs.libero.expert import ARM, LiberoExpert
from ptr_robot.envs.libero.rendering import CAMERAS
from ptr_robot.envs.libero.suites import NUM_INITIAL_STATES, resolve_names, resolve_task
from ptr_robot.envs.scripted import ScriptedRobot

_POSE = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z")
_MOST_STEPS = 2000


class Libero(EnvironmentType):
    """Forty tasks in four suites; evaluation goes through their fifty official initial states."""

    name = "libero"
    title = TITLE
    libraries = ("hf-libero", "robosuite", "mujoco")
    frames_per_second = FRAMES_PER_SECOND
    states: ClassVar = {
        STATE_KEY: VectorFeature(STATE_DIM, (*_POSE, "left_finger", "right_finger")),
        ENVIRONMENT_STATE_KEY: VectorFeature(ENVIRONMENT_STATE_DIM),
    }
    action = VectorFeature(ACTION_DIM, (*_POSE, "gripper"))
    cameras: ClassVar = {name: f"observation.images.{name}" for name in CAMERAS}
    default_cameras = tuple(CAMERAS)
    has_full_light = True
    default_tasks = ("libero_object",)
    study_state = ENVIRONMENT_STATE_KEY
    study_robot = "libero_objects"
    robots_folder = Path(__file__).parent / "robots"
    max_per_process = 1  # a second renderer in a process fails

    def resolve_task(self, name: str) -> tuple[str, ...]:
        """The name of a suite stands for its ten tasks."""
        return tuple(task.name for task in resolve_names(name))

    def instruction(self, task: str) -> str:
        """As LIBERO words it."""
        return resolve_task(task).instruction

    def step_limits(self, task: str) -> StepLimits:
        """The official limit of the task's suite."""
        return StepLimits(usual=resolve_task(task).max_steps, most=_MOST_STEPS)

    def make(self, task: str, cameras: CameraConfig) -> LiberoEnvironment:
        """One task."""
        return LiberoEnvironment(task, self.check_cameras(cameras))

    def suite(self, task: str) -> str:
        """Spatial, Object, Goal or Long."""
        return resolve_task(task).suite

    def num_initial_states(self, task: str) -> int:
        """Fifty in every task."""
        resolve_task(task)
        return NUM_INITIAL_STATES

    @property
    def scripted(self) -> ScriptedRobot:
        """Operators that know where everything is."""
        return ScriptedRobot(ARM, LiberoExpert)
