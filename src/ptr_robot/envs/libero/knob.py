"""Turn a stove on: take its knob between the fingers and turn the hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptr_robot.envs.libero.motion import CLOSED, OPEN, clear_height, travel, turned_down
from ptr_robot.envs.libero.scene import Goal, Scene, Vector
from ptr_robot.envs.libero.skill import Skill

_ABOVE_METRES = 0.08
_TURN_RADIANS = 1.0  # twice what LIBERO asks for
_FINGERS_ABOVE_TOP = -0.012  # of the ridge, which stands up 2.4 cm
_CLOSE_FRAMES = 8
_TURN_FRAMES = 40


class TurnKnob(Skill):
    """A knob with a ridge, which the fingers take from above."""

    def __init__(self, scene: Scene, goal: Goal) -> None:
        self._joint, _ = scene.joint(goal.subject)
        super().__init__(scene, goal, "approach")

    @property
    def _phases(self) -> dict[str, Callable[[Vector], Vector]]:
        return {
            "approach": self._approach,
            "descend": self._descend,
            "close": self._close,
            "turn": self._turn,
            "retreat": self._retreat,
        }

    @property
    def handled(self) -> Vector:
        """The middle of the ridge, as deep as the fingers go."""
        boxes = self._scene.boxes_moved_by(self._joint)
        ridge = boxes.corners[boxes.corners[..., 2].max(axis=1) > boxes.high[2] - 0.01]
        middle = (ridge.min(axis=(0, 1)) + ridge.max(axis=(0, 1))) / 2.0
        return np.array([middle[0], middle[1], boxes.high[2] + _FINGERS_ABOVE_TOP])

    def is_done(self) -> bool:
        return self.phase == "approach" and super().is_done()

    def _begin(self, phase: str) -> None:
        super()._begin(phase)
        if phase == "approach":
            # At rest the ridge runs away from the arm: fingers that close sideways take it by its thickness.
            self._yaw = self._scene.joint(self.goal.subject)[1]

    def _approach(self, hand: Vector) -> Vector:
        above = self.handled + np.array([0.0, 0.0, _ABOVE_METRES])
        if self._has_arrived(hand, above, 0.012) and self._is_turned(turned_down(self._yaw)):
            self._begin("descend")
        height = clear_height(self._scene.obstacles(), hand, above)
        return self._steer(hand, travel(hand, above, height), self._yaw, OPEN)

    def _descend(self, hand: Vector) -> Vector:
        if self._has_arrived(hand, self.handled, 0.006):
            self._begin("close")
        return self._steer(hand, self.handled, self._yaw, OPEN)

    def _close(self, hand: Vector) -> Vector:
        if self._frames >= _CLOSE_FRAMES:
            self._waypoint = hand
            self._begin("turn")
        return self._steer(hand, hand, self._yaw, CLOSED)

    def _turn(self, hand: Vector) -> Vector:
        if self._scene.is_met(self.goal) or self._frames > _TURN_FRAMES:
            self._waypoint = hand + np.array([0.0, 0.0, 0.1])
            self._begin("retreat")
        return self._steer(hand, self._waypoint, self._yaw + _TURN_RADIANS, CLOSED)

    def _retreat(self, hand: Vector) -> Vector:
        if self._has_arrived(hand, self._waypoint, 0.03):
            self._begin("approach")
        return self._steer(hand, self._waypoint, self._yaw, OPEN)
