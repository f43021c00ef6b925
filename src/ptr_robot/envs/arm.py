"""A robot's arm as scripts see it: where its hand can go, how it moves, and an expert that moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.base import clip_action

Vector = npt.NDArray[np.float64]  # (3,) metres
Action = npt.NDArray[np.float32]  # (Da,) the hand's movement x, y, z first, the gripper last, each in [-1, 1]


class Expert(Protocol):
    """A script that does the task of one environment, one action at a time, from wherever its hand is."""

    @property
    def hand(self) -> Vector:
        """Where the hand is now."""

    def act(self, hand: Vector) -> npt.NDArray[Any]:  # (Da,)
        """The next action of an expert that believes its hand to be at ``hand``, within [-1, 1]."""

    def is_near_object(self, hand: Vector) -> bool:
        """Whether the hand is so near to what it handles that slowness would lose the grip."""


@dataclass(frozen=True)
class Arm:
    """Where a robot's hand can go in every task, and how it moves."""

    action_size: int
    reachable_low: tuple[float, float, float]
    reachable_high: tuple[float, float, float]
    metres_per_step: float  # how far a movement of 1 takes the hand
    open_gripper: float  # the last number of an action that opens it

    def action(self, movement: npt.NDArray[Any], gripper: float) -> npt.NDArray[np.float64]:  # (Da,)
        """An action that moves the hand and turns nothing."""
        action = np.zeros(self.action_size)
        action[:3], action[-1] = movement, gripper
        return action

    def clip(self, action: npt.NDArray[Any]) -> Action:
        """The action that is executed."""
        return clip_action(action, self.action_size, "this arm")

    def within_reach(self, place: Vector) -> Vector:
        """The nearest place that the hand can go to."""
        reached: Vector = np.clip(place, self.reachable_low, self.reachable_high)
        return reached
