"""Pull a drawer open by its handle, or push it shut: the hand lies level and points at the drawer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptr_robot.envs.libero.motion import CLOSED, OPEN, pointing
from ptr_robot.envs.libero.scene import Goal, Rotation, Scene, Vector
from ptr_robot.envs.libero.skill import Skill

_BEFORE_METRES = 0.10  # in front of the handle, where the hand turns level
_PULL_METRES = 0.20  # further than a drawer goes
_CLOSE_FRAMES = 8
_MOVE_FRAMES = 70


class _LevelSkill(Skill):
    """Moves a drawer with a level hand."""

    # From above both ways of being level are as near, and the wrist reaches one of them everywhere.
    _turned_round = 0.5

    def __init__(self, scene: Scene, goal: Goal) -> None:
        self._joint, _ = scene.joint(goal.subject)
        super().__init__(scene, goal, "before")

    @property
    def handled(self) -> Vector:
        """The middle of the handle's bar: what stands out furthest of the drawer."""
        boxes = self._scene.boxes_moved_by(self._joint)
        outward = self._outward
        reach = boxes.corners @ outward  # (N, 8)
        bar = boxes.corners[int(reach.max(axis=1).argmax())]
        return np.asarray((bar.min(axis=0) + bar.max(axis=0)) / 2.0)

    @property
    def _outward(self) -> Vector:
        """The direction in which the drawer opens."""
        return self._scene.opening_direction(self.goal.subject)

    @property
    def _level(self) -> Rotation:
        """The hand points at the drawer, and its fingers close up and down, around the handle's bar."""
        return pointing(-self._outward, closing=np.array([0.0, 0.0, -1.0]))

    def is_done(self) -> bool:
        return self.phase == "before" and super().is_done()

    def _move_before(self, hand: Vector, gripper: float, following: str) -> Vector:
        before = self.handled + _BEFORE_METRES * self._outward
        if self._has_arrived(hand, before, 0.02) and (self._is_turned(self._level) or self._frames > _MOVE_FRAMES):
            self._begin(following)
        return self._steer(hand, before, self._level, gripper)

    def _leave(self, hand: Vector) -> Vector:
        if self._has_arrived(hand, self._waypoint, 0.03):
            self._begin("before")
        return self._steer(hand, self._waypoint, self._level, OPEN)


class OpenDrawer(_LevelSkill):
    """Take the handle and pull."""

    @property
    def _phases(self) -> dict[str, Callable[[Vector], Vector]]:
        return {
            "before": lambda hand: self._move_before(hand, OPEN, "reach"),
            "reach": self._reach,
            "close": self._close,
            "pull": self._pull,
            "retreat": self._leave,
        }

    def _reach(self, hand: Vector) -> Vector:
        if self._has_arrived(hand, self.handled, 0.008):
            self._begin("close")
        return self._steer(hand, self.handled, self._level, OPEN)

    def _close(self, hand: Vector) -> Vector:
        if self._frames >= _CLOSE_FRAMES:
            self._waypoint = hand + _PULL_METRES * self._outward
            self._begin("pull")
        return self._steer(hand, hand, self._level, CLOSED)

    def _pull(self, hand: Vector) -> Vector:
        if self._scene.is_met(Goal("open", self.goal.subject)) or self._has_arrived(hand, self._waypoint, 0.02):
            self._waypoint = hand + 0.08 * self._outward + np.array([0.0, 0.0, 0.1])
            self._begin("retreat")
        return self._steer(hand, self._waypoint, self._level, CLOSED)


class CloseDrawer(_LevelSkill):
    """Push the handle's bar with closed fingers until the drawer is shut."""

    @property
    def _level(self) -> Rotation:
        """The hand points half down: a low drawer leaves no room for a level wrist above the table."""
        out = -self._outward + np.array([0.0, 0.0, -1.0])
        side = np.cross(np.array([0.0, 0.0, 1.0]), -self._outward)
        return pointing(out / np.linalg.norm(out), closing=side)

    @property
    def _phases(self) -> dict[str, Callable[[Vector], Vector]]:
        return {
            "before": lambda hand: self._move_before(hand, CLOSED, "push"),
            "push": self._push,
            "retreat": self._leave,
        }

    def _push(self, hand: Vector) -> Vector:
        if self._scene.is_met(self.goal) or self._frames > _MOVE_FRAMES:
            self._waypoint = hand + 0.1 * self._outward
            self._begin("retreat")
        return self._steer(hand, self.handled - 0.05 * self._outward, self._level, CLOSED)
