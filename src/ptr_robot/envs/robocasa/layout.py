"""RoboCasa's named parts of state and action as flat vectors, in the order of LeRobot 0.6 and of RoboCasa's datasets.

Two orders are in use, and both have 16 and 12 numbers: this one, and one with the hand before the base (RoboCasa 0.2's
HDF5 files, openpi's conversions). Vectors of the other order need the robot map ``robocasa_hand_first``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ptr_robot.errors import DataError

# The hand's pose is relative to the base; rotations are quaternions x, y, z, w.
STATE_PARTS = {
    "base_position": 3,
    "base_rotation": 4,
    "end_effector_position_relative": 3,
    "end_effector_rotation_relative": 4,
    "gripper_qpos": 2,
}
# The base moves forward, sideways and about the vertical, then the torso; the mode chooses between base and arm.
ACTION_PARTS = {
    "base_motion": 4,
    "control_mode": 1,
    "end_effector_position": 3,
    "end_effector_rotation": 3,
    "gripper_close": 1,
}
STATE_DIM, ACTION_DIM = sum(STATE_PARTS.values()), sum(ACTION_PARTS.values())


def part_names(parts: Mapping[str, int]) -> tuple[str, ...]:
    """A name for every number of a vector."""
    return tuple(f"{part}_{index}" if size > 1 else part for part, size in parts.items() for index in range(size))


def flat_state(observed: Mapping[str, Any]) -> npt.NDArray[np.float32]:  # (16,)
    """The state that the wrapper hands out in parts, as ``state.<part>``."""
    found = []
    for part, size in STATE_PARTS.items():
        values = np.asarray(observed.get(f"state.{part}", ()), dtype=np.float32)
        if values.shape != (size,):
            raise DataError(
                f"RoboCasa's observation has state.{part} of shape {values.shape}, not ({size},); "
                "this adapter is written for its PandaOmron robot"
            )
        found.append(values)
    return np.concatenate(found)


def action_parts(action: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
    """The parts that the wrapper takes, as ``action.<part>``."""
    ends = np.cumsum(list(ACTION_PARTS.values()))[:-1]
    return {f"action.{part}": values for part, values in zip(ACTION_PARTS, np.split(action, ends), strict=True)}
