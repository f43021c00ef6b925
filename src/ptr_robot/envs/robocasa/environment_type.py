"""RoboCasa as an environment that commands name: ``--env.type=robocasa``."""

from __future__ import annotations

from typing import ClassVar

from ptr_robot.data.robots import FOLDER as ROBOTS_FOLDER
from ptr_robot.envs.base import CameraConfig, EnvironmentType, StepLimits, VectorFeature
from ptr_robot.envs.robocasa.environment import CAMERAS, STATE_KEY, TITLE, RoboCasaEnvironment
from ptr_robot.envs.robocasa.layout import ACTION_DIM, ACTION_PARTS, STATE_DIM, STATE_PARTS, part_names
from ptr_robot.envs.robocasa.tasks import group_of, resolve_names, resolve_task

_MOST_STEPS = 10_000  # RoboCasa itself never ends an episode


class RoboCasa(EnvironmentType):
    """Kitchen tasks of a Panda arm on a mobile base; kitchens are drawn by seed, and nothing is scripted."""

    name = "robocasa"
    title = TITLE
    libraries = ("robocasa", "robosuite", "mujoco")
    frames_per_second = 20
    states: ClassVar = {STATE_KEY: VectorFeature(STATE_DIM, part_names(STATE_PARTS))}
    action = VectorFeature(ACTION_DIM, part_names(ACTION_PARTS))
    cameras: ClassVar = {name: f"observation.images.{name}" for name in CAMERAS}
    default_cameras = CAMERAS
    default_tasks = ("CloseFridge",)
    study_state = STATE_KEY
    study_robot = "robocasa"
    robots_folder = ROBOTS_FOLDER
    max_per_process = 1  # as for LIBERO: a second renderer in a process fails

    def resolve_task(self, name: str) -> tuple[str, ...]:
        """The name of a group (``atomic_seen``) stands for its tasks in the group's kitchens."""
        return tuple(task.name for task in resolve_names(name))

    def instruction(self, task: str) -> str:
        """The task's name: what the robot is told names the objects that a reset draws."""
        return resolve_task(task).kitchen_task

    def step_limits(self, task: str) -> StepLimits:
        """RoboCasa's own horizon of the task."""
        return StepLimits(usual=resolve_task(task).horizon, most=_MOST_STEPS)

    def make(self, task: str, cameras: CameraConfig) -> RoboCasaEnvironment:
        """One task."""
        return RoboCasaEnvironment(task, self.check_cameras(cameras))

    def suite(self, task: str) -> str | None:
        """The group of target tasks."""
        return group_of(resolve_task(task))
