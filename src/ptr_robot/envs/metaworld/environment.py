"""A Meta-World task as a small typed environment: seeded layouts, clipped actions, images on demand."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.metaworld.rendering import (
    Camera,
    CameraConfig,
    Image,
    choose_backend,
    place_camera,
    update_positions,
)
from ptr_robot.envs.metaworld.tasks import instructions, resolve_task
from ptr_robot.errors import ConfigError, ShapeError, require

Action = npt.NDArray[np.float32]  # (4,) hand velocity x, y, z and gripper effort, each in [-1, 1]
EnvironmentState = npt.NDArray[np.float64]  # (39,) hand, gripper and objects, now and one step ago, then the goal

ACTION_DIM = 4
STATE_DIM = 4
ENVIRONMENT_STATE_DIM = 39
FRAMES_PER_SECOND = 80
MAX_STEPS = 500

_MAX_CAMERAS = 8  # about 65 MB each; the oldest is closed, and made anew if somebody looks again
_SHARED_CAMERAS: dict[tuple[str, CameraConfig], Camera] = {}


class MetaWorldEnvironment:
    """One task whose objects and goal are placed anew by every ``reset(seed)``, and by the seed alone.

    The goal stands in the last three numbers of ``environment_state`` and as a coloured mark in the image.
    Meta-World hides it from the state unless told otherwise, and then reach, push and their like cannot be solved.
    ``state`` is what LeRobot's environment gives: the hand's position and the gripper's opening.
    """

    def __init__(self, task: str, camera: CameraConfig | None = None) -> None:
        self.task = resolve_task(task)
        self.instruction = instructions()[self.task]
        self._camera_config = camera or CameraConfig()
        self._simulator = _make_simulator(self.task)
        place_camera(self._simulator.model, self._camera_config.name)
        self._environment_state: EnvironmentState | None = None
        self.is_success = False
        self.num_steps = 0

    def reset(self, seed: int) -> EnvironmentState:
        """Start an episode; the same seed gives the same layout whatever was simulated before."""
        self._simulator.seed(seed)
        self._environment_state, _ = self._simulator.reset()
        # Meta-World moves the goal's mark after it placed everything, and shows it there one step late.
        update_positions(self._simulator.model, self._simulator.data)
        self.is_success = False
        self.num_steps = 0
        return self.environment_state

    def step(self, action: npt.NDArray[Any]) -> EnvironmentState:
        """Execute one action, clipped to [-1, 1] and rounded to float32 as a dataset stores it."""
        executed = clip_action(action)
        if self.num_steps >= MAX_STEPS:
            raise ConfigError(f"{self.task}: Meta-World ends an episode after {MAX_STEPS} steps; reset it first")
        self._environment_state, _, _, _, info = self._simulator.step(executed)
        self.is_success = bool(info["success"])
        self.num_steps += 1
        return self.environment_state

    @property
    def environment_state(self) -> EnvironmentState:
        """Everything that Meta-World observes, the goal included."""
        if self._environment_state is None:
            raise ConfigError(f"{self.task}: reset(seed) must come before the first observation")
        return self._environment_state

    @property
    def state(self) -> npt.NDArray[np.float32]:  # (4,)
        """Proprioception: the hand's position in metres and the gripper's opening."""
        return self.environment_state[:STATE_DIM].astype(np.float32)

    def render(self) -> Image:
        """The current image; nothing is rendered unless this is called."""
        return self.camera.render(self._simulator.data)

    @property
    def camera(self) -> Camera:
        """The camera that all environments of this task in this process share; made by the first look."""
        key = (self.task, self._camera_config)
        if key not in _SHARED_CAMERAS:
            if len(_SHARED_CAMERAS) == _MAX_CAMERAS:
                _SHARED_CAMERAS.pop(next(iter(_SHARED_CAMERAS))).close()
            _SHARED_CAMERAS[key] = Camera(self._simulator.model, self._camera_config)
        return _SHARED_CAMERAS[key]


def clip_action(action: npt.NDArray[Any]) -> Action:
    """The action that is executed and recorded."""
    if action.shape != (ACTION_DIM,):
        raise ShapeError(f"an action of Meta-World has shape ({ACTION_DIM},), got {action.shape}")
    if not np.isfinite(action).all():
        raise ConfigError(f"the action {action.tolist()} is not finite; check the policy that chose it")
    executed: Action = np.clip(action, -1.0, 1.0).astype(np.float32)
    return executed


def make_expert(task: str) -> Any:
    """Meta-World's scripted expert of a task; ``get_action`` maps an environment state to an action."""
    choose_backend()
    # The experts ask for more than the robot's top speed at every far target, and say so each time.
    warnings.filterwarnings("ignore", message=r"Constant\(s\) may be too high")
    return require("metaworld.policies", "sim").ENV_POLICY_MAP[resolve_task(task)]()


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
