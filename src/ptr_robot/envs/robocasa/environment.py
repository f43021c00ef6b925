"""One RoboCasa task, through RoboCasa's own gym wrapper."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.base import CameraConfig, Environment, Image, clip_action
from ptr_robot.envs.robocasa.installation import import_robocasa
from ptr_robot.envs.robocasa.layout import ACTION_DIM, action_parts, flat_state
from ptr_robot.envs.robocasa.tasks import resolve_task
from ptr_robot.errors import ConfigError, DataError

TITLE = "RoboCasa"
STATE_KEY = "observation.state"
CAMERAS = ("robot0_agentview_left", "robot0_eye_in_hand", "robot0_agentview_right")  # LeRobot's order
# As in LeRobot: RoboCasa's larger pack of objects is 30 GB, and a category that no pack on the disk has is an error.
_OBJECT_PACKS = ("lightwheel",)


class RoboCasaEnvironment(Environment):
    """One task; kitchen, objects and instruction are drawn by the seed of the reset."""

    def __init__(self, task: str, cameras: CameraConfig) -> None:
        self._task = resolve_task(task)
        self.task = self._task.name
        self.instruction = self._task.kitchen_task  # until the first reset, which draws the objects it names
        wrapper = import_robocasa("robocasa.wrappers.gym_wrapper")
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints what it makes
                self._kitchen = wrapper.RoboCasaGymEnv(
                    env_name=self._task.kitchen_task,
                    camera_widths=cameras.image_size,
                    camera_heights=cameras.image_size,
                    split=self._task.split,
                    obj_registries=_OBJECT_PACKS,
                )
        except (OSError, ValueError, AssertionError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(
                f"{self.task}: RoboCasa could not build the kitchen ({reason}); are its assets downloaded?"
            ) from error
        self._observed: Mapping[str, Any] | None = None

    def reset(self, seed: int, initial_state: int | None = None) -> None:
        """Start an episode in the kitchen that the seed draws; there are no official initial states."""
        if initial_state is not None:
            raise ConfigError(f"{TITLE} has no official initial states, got number {initial_state}")
        self._observed, _ = self._kitchen.reset(seed=seed)
        self.instruction = self._kitchen.env.get_ep_meta().get("lang", self._task.kitchen_task)
        self.is_success = False
        self.num_steps = 0

    def step(self, action: npt.NDArray[Any]) -> None:
        """Execute one action; the wrapper reads gripper and mode as on or off, from 0.5 on."""
        parts = action_parts(clip_action(action, ACTION_DIM, TITLE))
        self._observed, _, _, _, info = self._kitchen.step(parts)
        self.is_success = bool(info["success"])
        self.num_steps += 1

    @property
    def states(self) -> Mapping[str, npt.NDArray[np.float32]]:
        """Base, hand and fingers."""
        return {STATE_KEY: flat_state(self._checked_observation())}

    def render(self, camera: str) -> Image:
        """The view that came with the last observation: the wrapper renders at every step, and upright."""
        return np.asarray(self._checked_observation()[f"video.{camera}"], dtype=np.uint8)

    def close(self) -> None:
        """Give back simulator and renderer."""
        self._kitchen.close()

    def _checked_observation(self) -> Mapping[str, Any]:
        if self._observed is None:
            raise ConfigError(f"{self.task}: reset() must come before the first observation")
        return self._observed
