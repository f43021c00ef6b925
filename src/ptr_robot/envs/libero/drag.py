"""Move a flat dish across the table: the closed fingers press inside its rim and take it along."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptr_robot.envs.libero.motion import CLOSED, OPEN, clear_height, travel
from ptr_robot.envs.libero.scene import Goal, Scene, Vector
from ptr_robot.envs.libero.skill import Skill

_ABOVE_METRES = 0.06
_INSIDE_SHARE = 0.45  # of the dish's radius: where the fingers press
_FLOOR_METRES = 0.016  # of the fingers' point above the dish's underside
_MOVE_FRAMES = 90


class Drag(Skill):
    """One dish to one region of the table."""

    def __init__(self, scene: Scene, goal: Goal) -> None:
        super().__init__(scene, goal, "approach")

    @property
    def _phases(self) -> dict[str, Callable[[Vector], Vector]]:
        return {
            "approach": self._approach,
            "descend": self._descend,
            "drag": self._drag,
            "retreat": self._retreat,
        }

    @property
    def handled(self) -> Vector:
        """Where the fingers press: inside the rim, on the side where the dish is to go."""
        boxes = self._scene.boxes(self.goal.subject)
        middle = (boxes.low + boxes.high) / 2.0
        ahead = self._scene.position(str(self.goal.place)) - middle
        ahead[2] = 0.0
        radius = float(np.min(boxes.high - boxes.low + np.array([0.0, 0.0, 9.0]))) / 2.0
        point = middle + _INSIDE_SHARE * radius * ahead / max(float(np.linalg.norm(ahead)), 1e-6)
        return np.array([point[0], point[1], boxes.low[2] + _FLOOR_METRES])

    def _approach(self, hand: Vector) -> Vector:
        above = self.handled + np.array([0.0, 0.0, _ABOVE_METRES])
        if self._has_arrived(hand, above, 0.012):
            self._begin("descend")
        height = clear_height(self._scene.obstacles(), hand, above)
        return self._steer(hand, travel(hand, above, height), 0.0, CLOSED)

    def _descend(self, hand: Vector) -> Vector:
        if self._has_arrived(hand, self.handled, 0.008):
            self._begin("drag")
        return self._steer(hand, self.handled, 0.0, CLOSED)

    def _drag(self, hand: Vector) -> Vector:
        offset = self._scene.position(str(self.goal.place)) - self._scene.position(self.goal.subject)
        if self._scene.is_met(self.goal) or self._frames > _MOVE_FRAMES:
            self._lift_to = hand + np.array([0.0, 0.0, 0.12])
            self._begin("retreat")
        ahead = hand + np.array([offset[0], offset[1], 0.0])
        ahead[2] = self.handled[2] - 0.01  # a little pressure
        return self._steer(hand, ahead, 0.0, CLOSED)

    def _retreat(self, hand: Vector) -> Vector:
        if self._has_arrived(hand, self._lift_to, 0.03):
            self._begin("approach")
        return self._steer(hand, self._lift_to, 0.0, OPEN)
