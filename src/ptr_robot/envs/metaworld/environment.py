"""A Meta-World task as a small typed environment: seeded layouts, clipped actions, images on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.base import CameraConfig, Environment, Image, clip_action
from ptr_robot.envs.metaworld.rendering import Camera, place_camera, update_positions
from ptr_robot.envs.metaworld.tasks import instructions, resolve_task
from ptr_robot.envs.offscreen import choose_backend
from ptr_robot.errors import ConfigError, require

EnvironmentState = npt.NDArray[np.float64]  # (39,) hand, gripper and objects, now and one step ago, then the goal

TITLE = "Meta-World"
ACTION_DIM = 4
STATE_DIM = 4
ENVIRONMENT_STATE_DIM = 39
MAX_STEPS = 500
STATE_KEY, ENVIRONMENT_STATE_KEY = "observation.state", "observation.environment_state"
DEFAULT_CAMERAS = CameraConfig(("corner2",))

_MAX_CAMERAS = 8  # about 65 MB each; the oldest is closed, and made anew if somebody looks again
_SHARED_CAMERAS: dict[tuple[str, str, int], Camera] = {}


class MetaWorldEnvironment(Environment):
    """One task whose objects and goal are placed anew by every ``reset(seed)``, and by the seed alone.

    The goal stands in the last three numbers of ``environment_state`` and as a coloured mark in the image.
    Meta-World hides it from the state unless told otherwise, and then reach, push and their like cannot be solved.
    ``observation.state`` is what LeRobot's environment gives: the hand's position and the gripper's opening.
    """

    def __init__(self, task: str, cameras: CameraConfig = DEFAULT_CAMERAS) -> None:
        self.task = resolve_task(task)
        self.instruction = instructions()[self.task]
        self._cameras = cameras
        self._simulator = _make_simulator(self.task)
        for name in cameras.names:
            place_camera(self._simulator.model, name)
        self._environment_state: EnvironmentState | None = None

    def reset(self, seed: int, initial_state: int | None = None) -> None:
        """Start an episode; the same seed gives the same layout whatever was simulated before."""
        if initial_state is not None:
            raise ConfigError(f"{TITLE} has no official initial states; give a seed")
        self._simulator.seed(seed)
        self._environment_state, _ = self._simulator.reset()
        # Meta-World moves the goal's mark after it placed everything, and shows it there one step late.
        update_positions(self._simulator.model, self._simulator.data)
        self.is_success = False
        self.num_steps = 0

    def step(self, action: npt.NDArray[Any]) -> None:
        """Execute one action: the hand's velocity x, y, z and the gripper's effort, each clipped to [-1, 1]."""
        executed = clip_action(action, ACTION_DIM, TITLE)
        if self.num_steps >= MAX_STEPS:
            raise ConfigError(f"{self.task}: Meta-World ends an episode after {MAX_STEPS} steps; reset it first")
        self._environment_state, _, _, _, info = self._simulator.step(executed)
        self.is_success = bool(info["success"])
        self.num_steps += 1

    @property
    def environment_state(self) -> EnvironmentState:
        """Everything that Meta-World observes, the goal included."""
        if self._environment_state is None:
            raise ConfigError(f"{self.task}: reset(seed) must come before the first observation")
        return self._environment_state

    @property
    def states(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """Proprioception (the hand's position in metres, the gripper's opening), and everything with the goal."""
        everything = self.environment_state.astype(np.float32)
        return {STATE_KEY: everything[:STATE_DIM], ENVIRONMENT_STATE_KEY: everything}

    def render(self, camera: str) -> Image:
        """The current image; nothing is rendered unless this is called."""
        return self.camera(camera).render(self._simulator.data)

    def camera(self, name: str) -> Camera:
        """The camera that all environments of this task in this process share; made by the first look."""
        key = (self.task, name, self._cameras.image_size)
        if key not in _SHARED_CAMERAS:
            if len(_SHARED_CAMERAS) == _MAX_CAMERAS:
                _SHARED_CAMERAS.pop(next(iter(_SHARED_CAMERAS))).close()
            _SHARED_CAMERAS[key] = Camera(self._simulator.model, name, self._cameras.image_size)
        return _SHARED_CAMERAS[key]


def _make_simulator(task: str) -> Any:
    """A simulator that shows the goal and draws a new layout from its own seeded generator at every reset.

    Meta-World's benchmarks fix fifty layouts a task; LeRobot's environment lifts that limit by the same switch.
    """
    choose_backend()
    simulator = require("metaworld.env_dict", "sim").ALL_V3_ENVIRONMENTS[task]()
    simulator._partially_observable = False
    del simulator.sawyer_observation_space  # cached with the goal hidden; rebuilt on its next use
    simulator._set_task_called = True
    simulator._freeze_rand_vec = False
    simulator.seeded_rand_vec = True
    return simulator
