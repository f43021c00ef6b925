"""From where the hand should be to the action that takes it there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.libero.scene import Boxes, Rotation, Vector

OPEN, CLOSED = -1.0, 1.0  # the last number of an action
DOWN: Rotation = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])  # the hand at yaw 0: fingers along y
_POSITION_GAIN = 25.0  # of the action, per metre: a little more than the controller's own 20
_ROTATION_GAIN = 2.5  # of the action, per radian
_CORRIDOR_METRES = 0.08  # half the width of what a hand sweeps over
_CLEARANCE_METRES = 0.03


def steer(hand: Vector, rotation: Rotation, target: Vector, target_rotation: Rotation, gripper: float) -> Vector:
    """An action towards a pose; a movement that is too far for one step keeps its direction."""
    movement = _POSITION_GAIN * (target - hand)
    movement /= max(1.0, float(np.abs(movement).max()))
    turn = np.clip(_ROTATION_GAIN * rotation_vector(target_rotation @ rotation.T), -1.0, 1.0)
    return np.concatenate([movement, turn, [gripper]])


def turned_down(yaw: float) -> Rotation:
    """The rotation of a hand that points down, turned about the vertical."""
    return about_vertical(yaw) @ DOWN


def pointing(out: Vector, closing: Vector) -> Rotation:
    """The rotation of a hand that points along ``out`` and closes its fingers along ``closing``."""
    return np.stack([closing, np.cross(out, closing), out], axis=1)


def about_vertical(angle: float) -> Rotation:
    """A rotation about the vertical axis."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])


def rotation_vector(rotation: Rotation) -> Vector:
    """Axis times angle of a rotation matrix, by the shorter way round."""
    from scipy.spatial.transform import Rotation as SpatialRotation

    return np.asarray(SpatialRotation.from_matrix(rotation).as_rotvec())


def clear_height(obstacles: Boxes, start: Vector, end: Vector) -> float:
    """A height at which a hand passes over everything between two places."""
    corners = obstacles.corners  # (N, 8, 3)
    low = corners.min(axis=1)[:, :2] - _CORRIDOR_METRES  # (N, 2)
    high = corners.max(axis=1)[:, :2] + _CORRIDOR_METRES
    way = np.linspace(start[:2], end[:2], 12)[:, None]  # (12, 1, 2)
    is_below: npt.NDArray[np.bool_] = ((way > low) & (way < high)).all(axis=-1).any(axis=0)
    if not is_below.any():
        return -np.inf
    return float(corners[is_below, :, 2].max()) + _CLEARANCE_METRES


def travel(hand: Vector, target: Vector, height: float) -> Vector:
    """The next point on a way to ``target`` that goes over obstacles: up, across, and down at the end."""
    distance = float(np.linalg.norm(target[:2] - hand[:2]))
    needed = min(height, target[2] + 3.0 * distance)  # near the end the way comes down like a funnel
    wanted = max(target[2], needed)
    lag = max(0.0, wanted - hand[2] - 0.015)
    share = float(np.clip(1.0 - lag / 0.04, 0.0, 1.0))  # first up, then across
    across = hand[:2] + share * (target[:2] - hand[:2])
    return np.array([across[0], across[1], wanted])
