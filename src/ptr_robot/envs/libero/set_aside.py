"""Put an object aside that lies where a drawer will stand open: under the drawer no hand could take it any more."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.libero.motion import OPEN
from ptr_robot.envs.libero.pick_and_place import PickAndPlace, Placement
from ptr_robot.envs.libero.scene import Boxes, Goal, Scene, Vector

_HAND_METRES = 0.03  # beside the open drawer: what a hand needs that takes the object there
_CLEARANCE_METRES = 0.008  # to everything else
_REACH_METRES = 0.65  # from the robot's base
_FURTHEST_METRES, _GRID_METRES = 0.3, 0.01
_STANDING_METRES = 0.02  # above the table when it is let go


class SetAside(PickAndPlace):
    """Takes what a goal's drawer will stand over, and puts it down at the nearest free place."""

    def __init__(self, scene: Scene, goal: Goal) -> None:
        self._start = scene.hand
        self._was_done = False
        super().__init__(scene, goal)

    def is_done(self) -> bool:
        """Once it is: on its way into the drawer the object is in the way again."""
        is_free = not is_in_the_way(self._scene, self.goal.subject, str(self.goal.place))
        self._was_done = self._was_done or (self.phase == "approach" and is_free)
        return self._was_done

    def _retreat(self, hand: Vector) -> Vector:
        """Back to where the arm began: from beside the table's edge it cannot turn the hand level."""
        if self._has_arrived(hand, self._start, 0.05):
            self._begin("approach")
        return self._steer(hand, self._start, 0.0, OPEN)

    def _placement(self) -> Placement:
        return Placement(self._free_place, drop_metres=_STANDING_METRES)

    @functools.cached_property
    def _free_place(self) -> Vector:
        """The middle of the object at the nearest free place within reach; where it is, if there is none."""
        scene, own = self._scene, self._scene.boxes(self.goal.subject)
        offsets = np.arange(-_FURTHEST_METRES, _FURTHEST_METRES + _GRID_METRES / 2, _GRID_METRES)
        shifts = np.stack(np.meshgrid(offsets, offsets), axis=-1).reshape(-1, 2)  # (S, 2)
        is_free = np.linalg.norm(own.middle[:2] + shifts - scene.robot_base[:2], axis=1) < _REACH_METRES
        for corners in scene.obstacles(but=[self.goal.subject]).corners:
            is_free &= ~_overlaps(own, shifts, corners, _CLEARANCE_METRES)
        is_free &= ~_overlaps(own, shifts, _open_drawer(scene, str(self.goal.place)), _HAND_METRES)
        free = shifts[is_free]
        shift = free[np.linalg.norm(free, axis=1).argmin()] if len(free) else np.zeros(2)
        return np.array([*(own.middle[:2] + shift), own.low[2]])


def is_in_the_way(scene: Scene, name: str, drawer: str) -> bool:
    """Whether an object lies below where a drawer, or the hand at it, will be."""
    swept = _open_drawer(scene, drawer)
    own = scene.boxes(name)
    is_below = own.high[2] < swept[:, 2].min()
    return bool(is_below and _overlaps(own, np.zeros((1, 2)), swept, _CLEARANCE_METRES)[0])


def _open_drawer(scene: Scene, drawer: str) -> npt.NDArray[np.float64]:  # (P, 3)
    """The corners of a drawer where it is and where it will be when it has been pulled as far as it goes."""
    joint, position = scene.joint(drawer)
    corners = scene.boxes_moved_by(joint).corners.reshape(-1, 3)
    way = (scene.travel(joint) + position) * scene.opening_direction(drawer)
    return np.concatenate([corners, corners + way])


def _overlaps(
    own: Boxes, shifts: npt.NDArray[np.float64], corners: npt.NDArray[np.float64], clearance: float
) -> npt.NDArray[np.bool_]:  # (S, 2), (P, 3) -> (S,)
    """Whether an object's outline, shifted, comes nearer to another outline than ``clearance``; seen from above."""
    low, high = corners[:, :2].min(axis=0) - clearance, corners[:, :2].max(axis=0) + clearance
    is_over = (own.low[:2] + shifts < high) & (own.high[:2] + shifts > low)
    return np.asarray(is_over.all(axis=1))
