"""A scene as numbers: what the task asks for and how far that is, and where everything is that could be meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

MAX_GOALS = 3  # no task of the four suites has more
_POSE_DIM = 11  # position 3, quaternion 4, place 3, joint 1
_WAY_DIM = 6  # from the hand to the object 3, from the object to its place 3
GOALS_DIM = MAX_GOALS * (_POSE_DIM + _WAY_DIM)
MAX_OBJECTS = 8  # that can be moved; no scene of the four suites has more
OBJECTS_DIM = MAX_OBJECTS * 3


def goal_numbers(simulator: Any, hand: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:  # (51,)
    """For each condition of the task: its subject's position and rotation, its place, and its joint's position.

    A condition without a place (a drawer that is to be open) has its own position there; one without a joint has 0.
    Behind all of them stand the ways that are left: from the hand to each subject, and from there to its place. A
    small policy would have to learn differences of positions to a centimetre before it learns anything else.
    """
    numbers = np.zeros((MAX_GOALS, _POSE_DIM))
    ways = np.zeros((MAX_GOALS, _WAY_DIM))
    conditions = simulator.parsed_problem["goal_state"]
    for row, way, (_, subject, *place) in zip(numbers, ways, conditions, strict=False):
        pose = simulator.object_states_dict[subject].get_geom_state()
        row[:3], row[3:7] = pose["pos"], pose["quat"]
        row[7:10] = _position(simulator, place[0]) if place else pose["pos"]
        row[10] = 0.0 if place else _joint_position(simulator, subject)
        way[:3], way[3:] = row[:3] - hand, row[7:10] - row[:3]
    return np.concatenate([numbers.reshape(-1), ways.reshape(-1)])


def object_ways(simulator: Any, hand: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:  # (24,)
    """The way from the hand to everything that can be moved, in the order of the names, and zeros behind.

    Nothing here says what the task is about. Where tasks share a scene, as all ten of Goal do, a policy that is given
    these numbers has to follow its instruction.
    """
    ways = np.zeros((MAX_OBJECTS, 3))
    for way, name in zip(ways, sorted(simulator.objects_dict), strict=False):
        way[:] = _position(simulator, name) - hand
    return ways.reshape(-1)


def _position(simulator: Any, name: str) -> npt.NDArray[np.float64]:  # (3,)
    return np.asarray(simulator.object_states_dict[name].get_geom_state()["pos"])


def _joint_position(simulator: Any, name: str) -> float:
    owner = simulator.object_sites_dict.get(name) or simulator.get_object(name)
    if not owner.joints:
        return 0.0
    return float(simulator.sim.data.qpos[simulator.sim.model.get_joint_qpos_addr(owner.joints[0])])
