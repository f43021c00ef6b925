"""Put a mug into something with a low ceiling: held by its handle, with the hand outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.libero.motion import CLOSED, OPEN, clear_height, pointing, travel
from ptr_robot.envs.libero.scene import Boxes, Goal, Scene, Vector
from ptr_robot.envs.libero.skill import Skill

_BEFORE_METRES = 0.08  # from the handle, where the way to it begins
_CLOSE_FRAMES = 12
_OPEN_FRAMES = 6
_TURN_FRAMES = 120
_CLEAR_METRES = 0.012  # between the object and the floor that it is carried over
_DROP_METRES = 0.004
_OUTSIDE_METRES = 0.06  # between the object and the door frame, where the way in begins
_DOOR_METRES = 0.035  # what a door needs in front of the region: the handle ends behind it
_LOST_METRES = 0.04
_FAR_METRES = 0.4  # from the middle of a cavity to beyond its walls
_BEHIND = 0.7  # the least cosine between the way out and the way to the handle
_STANDS_OUT = 1.3  # a handle is so much further from the middle than most parts are
_UP: Vector = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True)
class Cavity:
    """A region with a ceiling and walls on three sides."""

    inward: Vector  # the level way in
    middle: Vector
    floor: float  # its height
    front: float  # where the fixture begins, along the way in

    @classmethod
    def find(cls, scene: Scene, place: str) -> Cavity | None:
        """The cavity that a region is, where it is one."""
        if scene.region_size(place) is None or scene.is_drawer(place):
            return None
        frame = scene.boxes_at_rest(str(scene.parent(place)))
        middle = scene.position(place)
        far = np.linspace(0.0, _FAR_METRES, 80)[:, None]

        def is_walled(way: Vector) -> bool:
            return bool(frame.is_inside(middle + far * way, 0.0).any())

        level = [sign * axis for axis in scene.rotation(place).T if abs(axis[2]) < 0.1 for sign in (-1.0, 1.0)]
        free = [way for way in level if not is_walled(way)]
        if len(free) != 1 or not is_walled(_UP) or not is_walled(-_UP):
            return None
        inward = -free[0]
        corners = frame.corners  # (N, 8, 3)
        low, high = corners.min(axis=1), corners.max(axis=1)
        is_below = ((low[:, :2] < middle[:2]) & (high[:, :2] > middle[:2])).all(axis=1) & (high[:, 2] < middle[2])
        return cls(inward, middle, floor=float(high[is_below, 2].max()), front=-frame.reach(free[0]))

    def suits(self, boxes: Boxes) -> bool:
        """Whether an object has a handle, on the side that the hand comes from."""
        offset = (_handle(boxes) - boxes.centres.mean(axis=0))[:2]
        distance = float(np.linalg.norm(offset))
        stands_out = distance > _STANDS_OUT * np.median(_distances(boxes))
        return bool(stands_out and offset @ self.inward[:2] < -_BEHIND * distance)


class PutInside(Skill):
    """One object by its handle to the front of one region; a lost object is taken again."""

    def __init__(self, scene: Scene, goal: Goal, cavity: Cavity) -> None:
        self._cavity = cavity
        self._slant = pointing((cavity.inward - _UP) / np.sqrt(2.0), closing=np.cross(_UP, cavity.inward))
        self._held_at: Vector = np.zeros(3)
        super().__init__(scene, goal, "approach")

    @property
    def _phases(self) -> dict[str, Callable[[Vector], Vector]]:
        return {
            "approach": self._approach,
            "reach": self._reach,
            "close": self._close,
            "lift": self._lift,
            "carry": self._carry,
            "enter": self._enter,
            "lower": self._lower,
            "open": self._open,
            "retreat": self._retreat,
        }

    @property
    def handled(self) -> Vector:
        return _handle(self._scene.boxes(self.goal.subject))

    def is_done(self) -> bool:
        return self.phase == "approach" and super().is_done()

    def _approach(self, hand: Vector) -> Vector:
        before = self.handled - _BEFORE_METRES * self._slant[:, 2]
        height = clear_height(self._scene.obstacles(), hand, before)
        is_turned = self._is_turned(self._slant) or self._frames > _TURN_FRAMES
        if self._has_arrived(hand, before, 0.012, _TURN_FRAMES) and is_turned:
            self._begin("reach")
        return self._steer(hand, travel(hand, before, height), self._slant, OPEN)

    def _reach(self, hand: Vector) -> Vector:
        if self._has_arrived(hand, self.handled, 0.006):
            self._waypoint = hand
            self._begin("close")
        return self._steer(hand, self.handled, self._slant, OPEN)

    def _close(self, hand: Vector) -> Vector:
        if self._frames >= _CLOSE_FRAMES:
            self._held_at = self._offset()
            self._waypoint = hand + 0.08 * _UP
            self._begin("lift")
        return self._steer(hand, self._waypoint, self._slant, CLOSED)

    def _lift(self, hand: Vector) -> Vector:
        if self._is_lost():
            self._let_go(hand)
        elif self._has_arrived(hand, self._waypoint, 0.015):
            self._held_at = self._offset()
            self._begin("carry")
        return self._steer(hand, self._waypoint, self._slant, CLOSED)

    def _carry(self, hand: Vector) -> Vector:
        """To where the object stands before the opening, a little above the floor inside."""
        boxes = self._scene.boxes(self.goal.subject)
        front = boxes.reach(self._cavity.inward)
        gap = self._cavity.front - _OUTSIDE_METRES - front
        target = self._beside(hand) + gap * self._cavity.inward
        if self._is_lost():
            self._let_go(hand)
        elif self._has_arrived(hand, target, 0.01, 40):
            self._begin("enter")
        return self._steer(hand, target, self._slant, CLOSED)

    def _enter(self, hand: Vector) -> Vector:
        depth = self._missing_depth()
        if self._is_lost():
            self._let_go(hand)
        elif depth < 0.005 or self._has_stalled(depth, 25):
            self._begin("lower")
        return self._steer(hand, self._beside(hand) + depth * self._cavity.inward, self._slant, CLOSED)

    def _lower(self, hand: Vector) -> Vector:
        gap = self._scene.boxes(self.goal.subject).low[2] - self._cavity.floor
        if gap < _DROP_METRES or self._has_stalled(gap):
            self._begin("open")
        return self._steer(hand, hand - 0.02 * _UP, self._slant, CLOSED)

    def _open(self, hand: Vector) -> Vector:
        if self._frames >= _OPEN_FRAMES:
            self._waypoint = hand - 0.15 * self._cavity.inward + 0.05 * _UP
            self._begin("retreat")
        return self._steer(hand, hand, self._slant, OPEN)

    def _retreat(self, hand: Vector) -> Vector:
        if self._has_arrived(hand, self._waypoint, 0.03):
            self._begin("approach")
        return self._steer(hand, self._waypoint, self._slant, OPEN)

    def _let_go(self, hand: Vector) -> None:
        self._waypoint = hand + 0.05 * _UP
        self._begin("retreat")

    def _beside(self, hand: Vector) -> Vector:
        """The hand's place with the object in the middle of the region's width, a little above its floor."""
        side = np.cross(_UP, self._cavity.inward)
        boxes = self._scene.boxes(self.goal.subject)
        sideways = float((self._cavity.middle - self._scene.position(self.goal.subject)) @ side)
        upwards = self._cavity.floor + _CLEAR_METRES - float(boxes.low[2])
        return np.asarray(hand + sideways * side + upwards * _UP)

    def _missing_depth(self) -> float:
        """How far the handle is from where a closed door leaves it alone."""
        back = -self._scene.boxes(self.goal.subject).reach(-self._cavity.inward)
        return self._cavity.front + _DOOR_METRES - back

    def _offset(self) -> Vector:
        return self._scene.position(self.goal.subject) - self._scene.hand

    def _is_lost(self) -> bool:
        return bool(np.linalg.norm(self._offset() - self._held_at) > _LOST_METRES)


def _handle(boxes: Boxes) -> Vector:
    """The middle of the part that stands out furthest: the outer bar of a handle."""
    return np.array(boxes.centres[int(_distances(boxes).argmax())])


def _distances(boxes: Boxes) -> npt.NDArray[np.float64]:  # (N,)
    """How far each part is from the middle of all, seen from above."""
    return np.asarray(np.linalg.norm((boxes.centres - boxes.centres.mean(axis=0))[:, :2], axis=1))
