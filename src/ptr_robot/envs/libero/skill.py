"""What every skill of the scripted operators is: phases that follow each other, driven by the scene as it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from ptr_robot.envs.libero.motion import steer, turned_down
from ptr_robot.envs.libero.scene import Goal, Rotation, Scene, Vector

_STALL_FRAMES = 12  # a hand that has not come nearer for so long goes on with what is next
_PROGRESS_METRES = 0.002


class Skill(ABC):
    """One goal, met from whatever state the scene is in; a phase ends when its place is reached or out of reach."""

    _turned_round = 0.0  # the hand is taken for turned by half a circle where its axis is less than minus this

    def __init__(self, scene: Scene, goal: Goal, first_phase: str) -> None:
        self._scene = scene
        self.goal = goal
        self._waypoint: Vector = scene.hand  # where a phase sends the next one
        self._begin(first_phase)

    @property
    @abstractmethod
    def _phases(self) -> dict[str, Callable[[Vector], Vector]]:
        """What is done in each phase."""

    @property
    @abstractmethod
    def handled(self) -> Vector:
        """The place of what the hand is after."""

    def is_done(self) -> bool:
        """Whether the goal is met and the hand is free for the next one."""
        return self._scene.is_met(self.goal)

    def act(self, hand: Vector) -> Vector:  # (7,)
        """The next action of a hand that believes itself to be at ``hand``."""
        self._frames += 1
        return self._phases[self.phase](hand)

    def _begin(self, phase: str) -> None:
        self.phase = phase
        self._frames = 0
        self._nearest = np.inf
        self._nearest_frame = 0

    def _has_arrived(self, hand: Vector, target: Vector, tolerance: float, patience: int = _STALL_FRAMES) -> bool:
        distance = float(np.linalg.norm(target - hand))
        return distance < tolerance or self._has_stalled(distance, patience)

    def _has_stalled(self, distance: float, patience: int = _STALL_FRAMES) -> bool:
        if distance < self._nearest - _PROGRESS_METRES:
            self._nearest, self._nearest_frame = distance, self._frames
        return self._frames - self._nearest_frame > patience

    def _is_turned(self, rotation: Rotation) -> bool:
        """Whether the hand holds as it would with ``rotation``; half a turn about its own axis holds alike."""
        current = self._scene.hand_rotation
        return bool(abs(current[:, 0] @ rotation[:, 0]) > 0.99 and current[:, 2] @ rotation[:, 2] > 0.98)

    def _steer(self, hand: Vector, target: Vector, rotation: float | Rotation, gripper: float) -> Vector:
        """Towards a place with the hand at a yaw, pointing down, or at any rotation."""
        wanted = turned_down(rotation) if isinstance(rotation, float) else rotation
        current = self._scene.hand_rotation
        if current[:, 0] @ wanted[:, 0] < -self._turned_round:  # of the two rotations that hold alike the nearer one
            wanted = wanted * np.array([-1.0, -1.0, 1.0])
        return steer(hand, current, target, wanted, gripper)
