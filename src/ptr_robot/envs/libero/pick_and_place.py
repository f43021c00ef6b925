"""Pick an object up and put it where it belongs, from whatever state it is in; a lost object is picked up again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptr_robot.envs.libero.grasps import Grasp, rank_grasps, wrapped_yaw
from ptr_robot.envs.libero.motion import CLOSED, OPEN, clear_height, travel, turned_down
from ptr_robot.envs.libero.scene import Goal, Scene, Vector
from ptr_robot.envs.libero.skill import Skill

_ABOVE_METRES = 0.06  # over the grasp, where the way down begins
_LIFT_METRES = 0.06
_FEWEST_CLOSE_FRAMES, _MOST_CLOSE_FRAMES = 9, 18  # the grip grows for so long
_STILL_METRES = 0.0004  # fingers that move less in a frame have closed: a thin rim takes longer than a box
_OPEN_FRAMES = 6
_TRAVEL_FRAMES = 45  # a way over something leads away from its end at first
_TURN_FRAMES = 120  # a wrist that has not turned by then does not
_DRAWER_SHIFT_METRES = 0.03  # out from under the handles above a drawer, on the way down
_DRAWER_REST_METRES = 0.0  # and at its end: the front panel is as near as the cabinet
_DRAWER_DEPTH_METRES = 0.04  # below a drawer's rim: from higher up an object tips over the front panel
_OVER_DRAWER_METRES = 0.02
_CLEARANCE_METRES = 0.02
_SLOT_RATIO = 2.0  # a region so much longer than wide is a slot
_LOST_METRES = 0.035  # an object so far from where the hand should have it is not in it
_SWING_METRES = 0.02  # what swings stays as far from the hand as it was
_EMPTY_METRES = 0.003  # between fingers that hold nothing
_MISSED_METRES = 0.012  # fingers that end so far beside a grasp close on nothing


@dataclass(frozen=True)
class Placement:
    """Where the object's origin goes, and how far its lowest point is above the support when it is let go."""

    target: Vector  # horizontal place of the object's origin, height of the support
    drop_metres: float


class PickAndPlace(Skill):
    """One object to one place."""

    _grasp: Grasp
    _planned_at: Vector  # where the object was when the grasp was planned
    _held_at: Vector  # where it was in the hand
    _last_opening = 0.0  # of the fingers, while they close

    def __init__(self, scene: Scene, goal: Goal, shift: Vector | None = None) -> None:
        self._shift = np.zeros(3) if shift is None else shift
        self._failed: list[Grasp] = []
        self._has_planned = False
        super().__init__(scene, goal, "approach")

    @property
    def _phases(self) -> dict[str, Callable[[Vector], Vector]]:
        return {
            "approach": self._approach,
            "descend": self._descend,
            "close": self._close,
            "lift": self._lift,
            "carry": self._carry,
            "lower": self._lower,
            "open": self._open,
            "retreat": self._retreat,
            "release": self._release,
        }

    @property
    def handled(self) -> Vector:
        return self._current_grasp().point

    def is_done(self) -> bool:
        """Not before the hand has left: fingers that are still around an object would take it along."""
        return self.phase == "approach" and super().is_done()

    def _begin(self, phase: str) -> None:
        super()._begin(phase)
        if phase == "approach":
            self._plan_grasp()

    def _plan_grasp(self) -> None:
        """Choose a grasp of the object where it is now, unlike those that have failed."""
        position = self._scene.position(self.goal.subject)
        if self._has_planned:
            self._failed.append(self._grasp.moved_with(-self._planned_at))
        failed = [grasp.moved_with(position) for grasp in self._failed]
        place = str(self.goal.place)
        cabinet = -self._scene.opening_direction(place) if self._scene.is_drawer(place) else None
        self._grasp = rank_grasps(self._scene, self.goal.subject, failed, cabinet)[0]
        self._planned_at = position
        self._has_planned = True

    def _current_grasp(self) -> Grasp:
        return self._grasp.moved_with(self._scene.position(self.goal.subject) - self._planned_at)

    def _approach(self, hand: Vector) -> Vector:
        grasp = self._current_grasp()
        above = grasp.point + np.array([0.0, 0.0, _ABOVE_METRES])
        height = clear_height(self._scene.obstacles(), hand, above)
        is_turned = self._is_turned(turned_down(grasp.yaw)) or self._frames > _TURN_FRAMES
        if self._has_arrived(hand, above, 0.012, _TRAVEL_FRAMES) and is_turned:
            self._begin("descend")
        return self._steer(hand, travel(hand, above, height), grasp.yaw, OPEN)

    def _descend(self, hand: Vector) -> Vector:
        grasp = self._current_grasp()
        if np.linalg.norm(grasp.point[:2] - hand[:2]) > 0.04:
            self._begin("approach")
        elif self._has_arrived(hand, grasp.point, 0.006):
            has_missed = np.linalg.norm(grasp.point[:2] - hand[:2]) > _MISSED_METRES
            self._waypoint = hand
            self._begin("approach" if has_missed else "close")
        return self._steer(hand, grasp.point, grasp.yaw, OPEN)

    def _close(self, hand: Vector) -> Vector:
        """Close where the way down ended: a hand that is told to stay where it is drifts while the arm settles."""
        opening = self._scene.opening
        is_still = self._frames >= _FEWEST_CLOSE_FRAMES and abs(opening - self._last_opening) < _STILL_METRES
        self._last_opening = opening
        if is_still or self._frames >= _MOST_CLOSE_FRAMES:
            self._held_at = self._scene.position(self.goal.subject) - self._scene.hand
            self._waypoint = hand + np.array([0.0, 0.0, _LIFT_METRES]) + self._way_from_under()
            self._begin("lift")
            return self._steer(hand, hand, self._grasp.yaw, CLOSED)
        return self._steer(hand, self._waypoint, self._grasp.yaw, CLOSED)

    def _way_from_under(self) -> Vector:
        """Out from under the drawer that the object goes into, where it stands open over the object."""
        place = str(self.goal.place)
        if not self._scene.is_drawer(place):
            return np.zeros(3)
        outward = self._scene.opening_direction(place)
        sideways = np.array([outward[1], -outward[0], 0.0])
        drawer = self._scene.boxes_moved_by(self._scene.joint(place)[0]).corners.reshape(-1, 3)
        own = self._scene.boxes(self.goal.subject).corners.reshape(-1, 3)
        is_over = drawer[:, 2].min() > own[:, 2].max()
        is_aside = (own @ sideways).min() > (drawer @ sideways).max() or (own @ sideways).max() < (
            drawer @ sideways
        ).min()
        if not is_over or is_aside:
            return np.zeros(3)
        covered = float((drawer @ outward).max() - (own @ outward).min())
        return max(0.0, covered + _CLEARANCE_METRES) * outward

    def _lift(self, hand: Vector) -> Vector:
        if self._is_lost():
            self._let_go(hand)
        elif self._has_arrived(hand, self._waypoint, 0.012):
            self._held_at = self._scene.position(self.goal.subject) - self._scene.hand
            self._begin("carry")
        return self._steer(hand, self._waypoint, self._grasp.yaw, CLOSED)

    def _carry(self, hand: Vector) -> Vector:
        over, yaw = self._over_target(), self._place_yaw()
        stays_turned = yaw == self._grasp.yaw  # only a slot asks for another yaw
        is_turned = stays_turned or self._is_turned(turned_down(yaw)) or self._frames > _TURN_FRAMES
        if self._is_lost():
            self._let_go(hand)
        elif self._is_over_drawer(hand, over) or (self._has_arrived(hand, over, 0.012, _TRAVEL_FRAMES) and is_turned):
            self._begin("lower")
        depth = self._scene.hand[2] - self._scene.boxes(self.goal.subject).low[2]
        obstacles = self._scene.obstacles(but=[self.goal.subject])
        height = clear_height(obstacles, hand, over) + depth
        return self._steer(hand, travel(hand, over, max(height, over[2])), yaw, CLOSED)

    def _is_over_drawer(self, hand: Vector, over: Vector) -> bool:
        """A hand that stops over a drawer swings for a second, and into a drawer an object may go on the move."""
        offset = hand - over
        is_close = np.linalg.norm(offset[:2]) < _OVER_DRAWER_METRES and abs(offset[2]) < _ABOVE_METRES
        return bool(is_close) and self._scene.is_drawer(str(self.goal.place))

    def _lower(self, hand: Vector) -> Vector:
        placement = self._placement()
        gap = self._scene.boxes(self.goal.subject).low[2] - placement.target[2]
        down = self._over_target() - np.array([0.0, 0.0, 0.2])
        if self._is_lost():
            self._let_go(hand)
        elif gap < placement.drop_metres or self._has_stalled(gap):
            self._begin("open")
        down[2] = hand[2] - max(0.02, min(0.04, gap - placement.drop_metres + 0.01))
        return self._steer(hand, down, self._place_yaw(), CLOSED)

    def _open(self, hand: Vector) -> Vector:
        if self._frames >= _OPEN_FRAMES:
            self._waypoint = hand + np.array([0.0, 0.0, 0.1])
            self._begin("retreat")
        return self._steer(hand, hand, self._place_yaw(), OPEN)

    def _let_go(self, hand: Vector) -> None:
        self._waypoint = hand
        self._begin("release")

    def _release(self, hand: Vector) -> Vector:
        """Open before anything else: an object that still hangs on a finger would be chased wherever the hand goes."""
        if self._frames >= _OPEN_FRAMES:
            self._begin("approach")
        return self._steer(hand, self._waypoint, self._grasp.yaw, OPEN)

    def _retreat(self, hand: Vector) -> Vector:
        if self._has_arrived(hand, self._waypoint, 0.03):
            self._begin("approach")
        return self._steer(hand, self._waypoint, self._place_yaw(), OPEN)

    def _placement(self) -> Placement:
        place = str(self.goal.place)
        target = self._scene.position(place) + self._shift
        size = self._scene.region_size(place)
        parent = self._scene.parent(place)
        if self.goal.kind == "in" and size is not None:
            extent = np.abs(self._scene.rotation(place) @ size)
            rim = target[2] + extent[2]
            if self._scene.is_drawer(place):
                is_over = self._scene.boxes(self.goal.subject).low[2] > rim
                shift = _DRAWER_SHIFT_METRES if is_over else _DRAWER_REST_METRES
                target = target + shift * self._scene.opening_direction(place)
                return Placement(np.array([*target[:2], rim]), drop_metres=-_DRAWER_DEPTH_METRES)
            return Placement(np.array([*target[:2], rim]), drop_metres=-0.01)
        if size is None and parent is not None:  # on an object, such as a plate: its origin is at its bottom
            return Placement(target + np.array([0.0, 0.0, 0.012]), drop_metres=0.004)
        return Placement(target, drop_metres=0.008)

    def _place_yaw(self) -> float:
        """The hand's yaw at the place: as at the grasp, but into a slot the object goes with its narrow side first."""
        size = self._scene.region_size(str(self.goal.place))
        if self.goal.kind != "in" or size is None or size[:2].max() < _SLOT_RATIO * size[:2].min():
            return self._grasp.yaw
        narrow = self._scene.rotation(str(self.goal.place))[:, int(size[:2].argmin())]
        if abs(narrow[2]) > 0.5:  # a drawer's region is turned on its side, and wide
            return self._grasp.yaw
        return wrapped_yaw(float(np.arctan2(-narrow[0], narrow[1])))

    def _over_target(self) -> Vector:
        """Where the hand has to be for the object to hang over its place, a little above it."""
        placement = self._placement()
        bottom = self._scene.boxes(self.goal.subject).low[2] - self._scene.hand[2]
        offset = self._carried_point() - self._scene.hand
        height = placement.target[2] + placement.drop_metres - bottom + 0.035
        return np.array([placement.target[0] - offset[0], placement.target[1] - offset[1], height])

    def _carried_point(self) -> Vector:
        """What of the object goes over its place: into something its middle, onto something its origin."""
        if self.goal.kind == "in":
            return self._scene.boxes(self.goal.subject).middle
        return self._scene.position(self.goal.subject)

    def _is_lost(self) -> bool:
        """Whether the object is elsewhere; a plate that swings about the fingers keeps its distance, and is held."""
        offset = self._scene.position(self.goal.subject) - self._scene.hand
        has_moved = np.linalg.norm(offset - self._held_at) > _LOST_METRES
        has_left = abs(np.linalg.norm(offset) - np.linalg.norm(self._held_at)) > _SWING_METRES
        return bool(has_moved and (has_left or self._scene.opening < _EMPTY_METRES))
