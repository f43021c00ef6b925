"""Push a door shut that turns about a vertical hinge."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptr_robot.envs.libero.grasps import wrapped_yaw
from ptr_robot.envs.libero.motion import CLOSED, OPEN, clear_height, travel
from ptr_robot.envs.libero.scene import Goal, Scene, Vector
from ptr_robot.envs.libero.skill import Skill

_BEFORE_METRES = 0.07  # from the door, where the push begins
_TOUCH_METRES = 0.012  # half a finger
_SHARE = 0.7  # of the door's width, from the hinge: a handle is further out
_DEPTH_METRES = 0.045  # below the door's top: the hand stays above it
_RISE_METRES = 0.08
_AHEAD_RADIANS = 0.3
_PUSH_FRAMES = 250


class CloseDoor(Skill):
    """Come down outside the door and push it along its way round."""

    _yaw = 0.0

    def __init__(self, scene: Scene, goal: Goal) -> None:
        self._joint, _ = scene.joint(goal.subject)
        super().__init__(scene, goal, "before")

    @property
    def _phases(self) -> dict[str, Callable[[Vector], Vector]]:
        return {"before": self._before, "push": self._push, "retreat": self._retreat}

    @property
    def handled(self) -> Vector:
        return self._place(0.0, _TOUCH_METRES)

    def is_done(self) -> bool:
        return self.phase == "before" and super().is_done()

    def _place(self, ahead: float, distance: float) -> Vector:
        """A place outside the door, where the door is or would be after a turn by ``ahead``."""
        door = self._scene.boxes_moved_by(self._joint)
        panel = int(door.half_sizes.prod(axis=1).argmax())
        corners = door.corners[panel]
        hinge = self._scene.hinge(self._joint)
        along = corners.mean(axis=0) - hinge
        along[2] = 0.0
        width = 2.0 * float(np.linalg.norm(along))
        along /= np.linalg.norm(along)
        inwards = np.cross(np.array([0.0, 0.0, 1.0]), along)  # the way the door turns as its joint grows
        thickness = float(((hinge - corners) @ inwards).max())
        cosine, sine = np.cos(ahead), np.sin(ahead)
        place = hinge + _SHARE * width * (cosine * along + sine * inwards)
        place -= (thickness + distance) * (cosine * inwards - sine * along)
        return np.array([place[0], place[1], corners[:, 2].max() - _DEPTH_METRES])

    def _before(self, hand: Vector) -> Vector:
        if self._frames == 1:
            across = self._scene.hand_rotation[:, 0]  # any yaw will do: the one that the wrist need not turn for
            self._yaw = wrapped_yaw(float(np.arctan2(-across[0], across[1])))
        before = self._place(0.0, _BEFORE_METRES)
        height = clear_height(self._scene.obstacles(), hand, before)
        if self._has_arrived(hand, before, 0.015, 40):
            self._begin("push")
        return self._steer(hand, travel(hand, before, height), self._yaw, CLOSED)

    def _push(self, hand: Vector) -> Vector:
        if self._scene.is_met(self.goal) or self._frames > _PUSH_FRAMES:
            self._waypoint = self._place(0.0, _BEFORE_METRES) + np.array([0.0, 0.0, _RISE_METRES])
            self._begin("retreat")
        return self._steer(hand, self._place(_AHEAD_RADIANS, 0.0), self._yaw, CLOSED)

    def _retreat(self, hand: Vector) -> Vector:
        if self._has_arrived(hand, self._waypoint, 0.03):
            self._begin("before")
        return self._steer(hand, self._waypoint, self._yaw, OPEN)
