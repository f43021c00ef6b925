"""What recording, evaluation and studies ask of an environment: a task that is reset, stepped and looked at.

A new environment is one folder: a subclass of ``Environment`` (one task), one of ``EnvironmentType`` (all of them), and
a line in ``ptr_robot.envs.registry`` (docs/add_an_environment.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ptr_robot.errors import ConfigError, ShapeError, did_you_mean

if TYPE_CHECKING:
    from ptr_robot.envs.scripted import ScriptedRobot

Image = npt.NDArray[np.uint8]  # (H, W, 3)
MIN_IMAGE_SIZE, MAX_IMAGE_SIZE = 16, 1024


@dataclass(frozen=True)
class VectorFeature:
    """A state or an action as a LeRobot dataset stores it."""

    size: int
    names: tuple[str, ...] | None = None  # of its numbers, where they have any


@dataclass(frozen=True)
class StepLimits:
    """When an episode that does not succeed ends."""

    usual: int  # the environment's own protocol
    most: int  # what its simulator allows


@dataclass(frozen=True)
class CameraConfig:
    """Which cameras look, by the environment's names; how many pixels their square images have a side; the light."""

    names: tuple[str, ...]
    image_size: int = 96
    full_light: bool = False  # lit as the simulator ships it: shadows, reflections, multisampling

    def __post_init__(self) -> None:
        if not MIN_IMAGE_SIZE <= self.image_size <= MAX_IMAGE_SIZE:
            raise ConfigError(
                f"image_size={self.image_size} is out of range; choose {MIN_IMAGE_SIZE} to {MAX_IMAGE_SIZE} pixels"
            )


class Environment(ABC):
    """One task. An episode ends with success or when whoever steps it stops; images are rendered when asked for."""

    task: str  # full name
    instruction: str
    is_success: bool = False  # since the last reset
    num_steps: int = 0  # since the last reset

    @abstractmethod
    def reset(self, seed: int, initial_state: int | None = None) -> None:
        """Start an episode from the layout that ``seed`` alone decides, or from an official initial state by number.

        Everything that has to settle has settled when this returns; such steps are not counted.
        """

    @abstractmethod
    def step(self, action: npt.NDArray[Any]) -> None:
        """Execute one action, clipped to what the robot takes and rounded to float32 as a dataset stores it."""

    @property
    @abstractmethod
    def states(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """What is observed now without looking, under the keys of the type's ``states``."""

    @abstractmethod
    def render(self, camera: str) -> Image:
        """The current image of one of the cameras that the environment was made with, upright."""

    def close(self) -> None:  # noqa: B027 (most have nothing to give back)
        """Give back the simulator and its renderer; the environment is not used again."""


class EnvironmentType(ABC):
    """An environment by name: its tasks, what it gives and takes, and how one of its tasks is made.

    An instance holds no state: it is pickled and sent to worker processes.
    """

    name: ClassVar[str]  # of --env.type, and the robot_type of recorded datasets
    title: ClassVar[str]  # what sentences call it
    libraries: ClassVar[tuple[str, ...]]  # distributions whose versions results are kept with
    frames_per_second: ClassVar[int]
    states: ClassVar[Mapping[str, VectorFeature]]  # by LeRobot key
    action: ClassVar[VectorFeature]
    cameras: ClassVar[Mapping[str, str]]  # the LeRobot key of each camera's images, by the camera's name
    default_cameras: ClassVar[tuple[str, ...]]
    has_full_light: ClassVar[bool] = False  # whether its pictures can be lit as the simulator ships them
    default_tasks: ClassVar[tuple[str, ...]]  # what is recorded where nobody names a task; the first is evaluated
    study_state: ClassVar[str]  # the key of the state that studies give to policies
    study_robot: ClassVar[str]  # the map of that state into the unified space, in ``robots_folder``
    robots_folder: ClassVar[Path]
    max_per_process: ClassVar[int | None] = None  # how many a process may hold at a time; None: any number

    @abstractmethod
    def resolve_task(self, name: str) -> tuple[str, ...]:
        """The full names of the tasks that a name stands for; an unknown one raises ``ConfigError`` with a hint."""

    @abstractmethod
    def instruction(self, task: str) -> str:
        """What the robot is told in a task."""

    def task_title(self, task: str) -> str:
        """What tables call a task: by default its full name."""
        return task

    @abstractmethod
    def step_limits(self, task: str) -> StepLimits:
        """When an episode of the task counts as failed."""

    @abstractmethod
    def make(self, task: str, cameras: CameraConfig) -> Environment:
        """One task, by its full name, not reset yet."""

    def suite(self, task: str) -> str | None:  # noqa: ARG002 (a type that has some asks for the task)
        """The suite of tasks that results are also given for; None where there are no suites."""
        return None

    def num_initial_states(self, task: str) -> int:  # noqa: ARG002 (a type that has some asks for the task)
        """How many official initial states evaluation goes through in their order; 0: it draws layouts by seed."""
        return 0

    @property
    def scripted(self) -> ScriptedRobot:
        """What ``ptr collect`` needs: a scripted expert, and the operators who do the task in its way."""
        raise ConfigError(f"{self.title} has no scripted operators; record demonstrations of it elsewhere")

    def resolve_tasks(self, names: Iterable[str]) -> tuple[str, ...]:
        """The full names of several different tasks."""
        resolved = tuple(task for name in names for task in self.resolve_task(name))
        if not resolved:
            raise ConfigError("no task was named; name at least one with --env.task")
        repeated = next((name for name in resolved if resolved.count(name) > 1), None)
        if repeated is not None:
            raise ConfigError(f"the task {repeated!r} is named twice; name it once and raise the number of episodes")
        return resolved

    def check_cameras(self, cameras: CameraConfig) -> CameraConfig:
        """The same cameras; one that the environment lacks is refused with a hint, and so is a light."""
        for name in cameras.names:
            if name not in self.cameras:
                raise ConfigError(f"there is no camera {name!r}; {did_you_mean(name, self.cameras)}")
        if cameras.full_light and not self.has_full_light:
            raise ConfigError(f"{self.title} is rendered in one light alone; leave out --env.full_light")
        return cameras

    def camera_of(self, key: str) -> str:
        """The camera whose images a dataset stores under ``key``: by the key itself or by its last part."""
        own = {image_key: name for name, image_key in self.cameras.items()}
        name = own.get(key, key.rpartition(".")[2])
        return self.check_cameras(CameraConfig((name,))).names[0]

    def robot_file(self, robot: str | None) -> str:
        """The file of a robot map: studies' usual one, another of this environment's by name, or the user's own."""
        own = self.robots_folder / f"{self.study_robot if robot is None else robot}.yaml"
        return str(own) if robot is None or own.is_file() else robot


def clip_action(action: npt.NDArray[Any], size: int, title: str) -> npt.NDArray[np.float32]:  # (Da,)
    """The action that is executed and recorded: within [-1, 1] and rounded to float32."""
    if action.shape != (size,):
        raise ShapeError(f"an action of {title} has shape ({size},), got {action.shape}")
    if not np.isfinite(action).all():
        raise ConfigError(f"the action {action.tolist()} is not finite; check the policy that chose it")
    executed: npt.NDArray[np.float32] = np.clip(action, -1.0, 1.0).astype(np.float32)
    return executed
