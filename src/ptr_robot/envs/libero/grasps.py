"""Where to take hold of an object from above: across its narrow side, at the rim where it is too wide, or by a part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.libero.scene import Boxes, Scene, Vector

MAX_WIDTH_METRES = 0.07  # of what the fingers close around
_NUM_DIRECTIONS = 24
_TIP_METRES = 0.011  # how far the fingers reach below the point between them
_DEEP_METRES = 0.035  # below an object's top: as deep as a grasp goes
_RIM_METRES = 0.013
_HERE_METRES = 0.02  # of a rim: what the fingers take of it
_ALIKE_METRES, _ALIKE_RADIANS = 0.025, 0.2  # grasps so near to each other fail alike
_SIDE_COST = 15.0  # a metre towards what the hand should stay away from
_REACH_METRES = 0.70  # from the robot's base: further out the arm is nearly straight and the hand no longer obeys
_REACH_COST = 10.0  # a metre beyond
_EMPTY_COST = 3.0  # of a grasp with nothing in it
_POOR_COST = 2.5  # of the best grasp of the whole, beyond which parts are tried
_KNOB_METRES = 0.006  # below the top of a part: fingers that come down deeper rub on the lid under a knob
_OFFSET_COST = 10.0  # a metre between a part and the middle: what hangs there tips
_HAND_METRES = 0.17  # around an object: what a hand that takes it might touch
_WALL_METRES = 0.006  # from the outside of a rim to the middle of its wall


@dataclass(frozen=True)
class Grasp:
    """The point between the fingers, and the hand's yaw; at yaw 0 the fingers close along y."""

    point: Vector
    yaw: float
    cost: float

    def with_cost(self, added: float) -> Grasp:
        """The same grasp with something more that speaks against it."""
        return Grasp(self.point, self.yaw, self.cost + added)

    def is_like(self, other: Grasp) -> bool:
        """Whether the hand would be nearly the same."""
        return bool(
            np.linalg.norm(self.point - other.point) < _ALIKE_METRES
            and abs(wrapped_yaw(self.yaw - other.yaw)) < _ALIKE_RADIANS
        )

    def moved_with(self, shift: Vector) -> Grasp:
        """The same grasp of an object that has been shifted."""
        return Grasp(self.point + shift, self.yaw, self.cost)


def rank_grasps(scene: Scene, name: str, failed: Sequence[Grasp] = (), away_from: Vector | None = None) -> list[Grasp]:
    """Grasps of an object, the best first; what resembles one that failed comes late, and parts are for want of better.

    ``away_from`` points at what will stand beside the object at its place, where the hand should not be.
    """
    boxes = scene.boxes(name)
    obstacles = scene.obstacles(but=[name]).near(boxes, _HAND_METRES)
    base = scene.robot_base

    def with_costs(grasps: Iterable[Grasp]) -> list[Grasp]:
        return [_with_cost(grasp, boxes, obstacles).with_cost(_stretch_cost(grasp, base)) for grasp in grasps]

    scored = with_costs((*_across(boxes), *_at_rim(boxes)))
    if min((grasp.cost for grasp in scored), default=np.inf) > _POOR_COST:
        scored += with_costs(_by_part(boxes))
    scored = [grasp.with_cost(sum(grasp.is_like(other) for other in failed)) for grasp in scored]
    if away_from is not None:
        scored = [grasp.with_cost(_SIDE_COST * float((grasp.point - boxes.middle) @ away_from)) for grasp in scored]
    return sorted(scored, key=lambda grasp: grasp.cost)


def _across(boxes: Boxes, shallowest: float = 0.01) -> Iterator[Grasp]:
    """Grasps around all boxes together, at several heights."""
    low, high = boxes.low[2], boxes.high[2]
    depths = np.array([shallowest, 0.02, _DEEP_METRES])
    for height in np.unique(np.clip(high - depths, low + _TIP_METRES + 0.002, None)):
        points = _slab(boxes, height)  # (P, 2)
        if not len(points):
            continue
        for yaw in _yaws():
            across, along = points @ _closing(yaw)[:2], points @ _sideways(yaw)[:2]
            width = float(np.ptp(across))
            if width <= MAX_WIDTH_METRES:
                middle = np.mean([across.min(), across.max()]) * _closing(yaw)
                middle = middle + np.mean([along.min(), along.max()]) * _sideways(yaw)
                shallowness = max(0.0, _DEEP_METRES - (high - height))
                yield Grasp(np.array([middle[0], middle[1], height]), yaw, 5.0 * width + 5.0 * shallowness)


def _at_rim(boxes: Boxes) -> Iterator[Grasp]:
    """Grasps of the wall of something hollow, one finger inside."""
    lowest = boxes.low[2] + _TIP_METRES + 0.002  # a plate is flat
    points = _slab(boxes, max(boxes.high[2] - _RIM_METRES, lowest))  # (P, 2)
    corners = boxes.corners.reshape(-1, 3)
    centre = np.mean([points.min(axis=0), points.max(axis=0)], axis=0)
    for direction in np.linspace(0.0, 2.0 * np.pi, _NUM_DIRECTIONS, endpoint=False):
        outward = np.array([np.cos(direction), np.sin(direction)])
        offsets = points - centre
        is_near = np.abs(offsets @ np.array([-outward[1], outward[0]])) < 0.015
        if not is_near.any():
            continue
        radius = float((offsets[is_near] @ outward).max())
        if radius > MAX_WIDTH_METRES / 2:
            place = centre + (radius - _WALL_METRES) * outward
            is_here = np.linalg.norm(corners[:, :2] - place, axis=1) < _HERE_METRES
            top = corners[is_here, 2].max() if is_here.any() else boxes.high[2]  # a bowl that leans has a low side
            yaw = wrapped_yaw(direction - np.pi / 2)
            yield Grasp(np.array([place[0], place[1], max(top - _RIM_METRES, lowest)]), yaw, 0.6)


def _by_part(boxes: Boxes) -> Iterator[Grasp]:
    """Grasps of a single part: the knob on a lid, a handle."""
    for part in boxes.each():
        offset = float(np.linalg.norm((part.middle - boxes.middle)[:2]))
        for grasp in _across(part, _KNOB_METRES):
            yield grasp.with_cost(_OFFSET_COST * offset)


def _with_cost(grasp: Grasp, own: Boxes, obstacles: Boxes) -> Grasp:
    """Add what speaks against a grasp: a far turn of the wrist, what the hand would touch, and nothing to hold."""
    fingers = grasp.point + _finger_points(grasp.yaw)
    palm = grasp.point + _palm_points(grasp.yaw)
    between = grasp.point + _points_between(grasp.yaw)  # a panel there would be held with the object, or instead of it
    touched = obstacles.is_inside(np.concatenate([fingers, palm, between]), 0.006).sum()
    touched_own = own.is_inside(fingers, 0.001).sum() + own.is_inside(palm, 0.0).sum()
    holds = own.is_inside(grasp.point + _held_points(grasp.yaw), 0.001).any()
    against = 0.3 * float(touched + touched_own) + (0.0 if holds else _EMPTY_COST)
    return grasp.with_cost(0.25 * abs(grasp.yaw) + against)


def _stretch_cost(grasp: Grasp, base: Vector) -> float:
    """What speaks against a grasp on the far side of an object that is hardly within reach."""
    return _REACH_COST * max(0.0, float(np.linalg.norm((grasp.point - base)[:2])) - _REACH_METRES)


def _slab(boxes: Boxes, height: float) -> npt.NDArray[np.float64]:  # (P, 2)
    """The corners, seen from above, of all boxes that reach this height."""
    corners = boxes.corners
    reaches = (corners[..., 2].min(axis=1) < height + 0.008) & (corners[..., 2].max(axis=1) > height - 0.008)
    return np.asarray(corners[reaches][..., :2].reshape(-1, 2))


def _finger_points(yaw: float) -> npt.NDArray[np.float64]:  # (P, 3)
    """Points of both open fingers, so dense that no panel fits between them."""
    return _grid(yaw, (-0.06, -0.05, -0.041, 0.041, 0.05, 0.06), (-0.011, 0.011), (-_TIP_METRES, 0.001, 0.015, 0.03))


def _points_between(yaw: float) -> npt.NDArray[np.float64]:  # (P, 3)
    """Points that the fingers pass on their way to each other."""
    return _grid(yaw, (-0.03, -0.02, -0.01, 0.01, 0.02, 0.03), (-0.011, 0.011), (-_TIP_METRES, 0.001))


def _held_points(yaw: float) -> npt.NDArray[np.float64]:  # (P, 3)
    """Points between the finger tips: the middle of a pot's outline is the gap between its body and its handle."""
    return _grid(yaw, tuple(np.arange(-0.035, 0.036, 0.0025)), (0.0,), (-0.006, 0.0))


def _palm_points(yaw: float) -> npt.NDArray[np.float64]:  # (P, 3)
    """Points of the hand, and of the arm that follows it from above."""
    return _grid(yaw, (-0.1, -0.05, 0.0, 0.05, 0.1), (-0.032, 0.032), tuple(np.arange(0.045, 0.17, 0.012)))


def _grid(
    yaw: float, across: tuple[float, ...], along: tuple[float, ...], up: tuple[float, ...]
) -> npt.NDArray[np.float64]:
    return np.array(
        [x * _closing(yaw) + y * _sideways(yaw) + np.array([0.0, 0.0, z]) for x in across for y in along for z in up]
    )


def _yaws() -> npt.NDArray[np.float64]:
    return np.linspace(-np.pi / 2, np.pi / 2, _NUM_DIRECTIONS // 2, endpoint=False, dtype=np.float64)


def _closing(yaw: float) -> Vector:
    """The direction along which the fingers close."""
    return np.array([-np.sin(yaw), np.cos(yaw), 0.0])


def _sideways(yaw: float) -> Vector:
    return np.array([np.cos(yaw), np.sin(yaw), 0.0])


def wrapped_yaw(angle: float) -> float:
    """The same axis within a quarter turn of zero; a hand turned by half a circle holds alike."""
    return float((angle + np.pi / 2) % np.pi - np.pi / 2)
