"""What a scripted operator may know of a scene: true poses, collision boxes, goals, and the hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.libero.environment import LiberoEnvironment

Vector = npt.NDArray[np.float64]  # (3,) metres
Rotation = npt.NDArray[np.float64]  # (3, 3)
_COLLISION_GROUP = 0
_BOX = 6  # MuJoCo's number of the shape; LIBERO's collision shapes are boxes but for one handle
_HINGE = 3  # MuJoCo's number of the joint
_CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64)  # (8, 3)


@dataclass(frozen=True)
class Goal:
    """One condition of a task: ``on``, ``in``, ``open``, ``close`` or ``turnon``, what it is about, and where."""

    kind: str
    subject: str
    place: str | None = None


@dataclass(frozen=True)
class Boxes:
    """Collision boxes in the world."""

    centres: npt.NDArray[np.float64]  # (N, 3)
    rotations: npt.NDArray[np.float64]  # (N, 3, 3)
    half_sizes: npt.NDArray[np.float64]  # (N, 3)

    @property
    def corners(self) -> npt.NDArray[np.float64]:  # (N, 8, 3)
        """The corners of each box."""
        local = _CORNERS[None] * self.half_sizes[:, None]
        corners: npt.NDArray[np.float64] = np.einsum("nij,nkj->nki", self.rotations, local) + self.centres[:, None]
        return corners

    @property
    def middle(self) -> Vector:
        """The middle of all boxes together."""
        return np.asarray((self.low + self.high) / 2.0)

    @property
    def low(self) -> Vector:
        """The lowest coordinates of all boxes together."""
        return np.asarray(self.corners.min(axis=(0, 1)))

    @property
    def high(self) -> Vector:
        """The highest coordinates of all boxes together."""
        return np.asarray(self.corners.max(axis=(0, 1)))

    def reach(self, direction: Vector) -> float:
        """How far the boxes reach in a direction, from the origin of the world."""
        return float((self.corners @ direction).max())

    def near(self, others: Boxes, distance: float) -> Boxes:
        """Those boxes that are within a distance of the others from above, and not below them."""
        corners = self.corners
        low, high = corners.min(axis=1), corners.max(axis=1)
        is_near = (low[:, :2] < others.high[:2] + distance) & (high[:, :2] > others.low[:2] - distance)
        return self._chosen(is_near.all(axis=-1) & (high[:, 2] > others.low[2] + 0.002))

    def each(self) -> Iterator[Boxes]:
        """Every box by itself."""
        return (self._chosen([index]) for index in range(len(self.centres)))

    def is_inside(self, points: npt.NDArray[np.float64], margin: float) -> npt.NDArray[np.bool_]:  # (P, 3) -> (P,)
        """Which points lie in a box, or nearer to one than ``margin`` along its axes."""
        offsets = points[:, None] - self.centres[None]  # (P, N, 3)
        local = np.abs(np.einsum("nji,pnj->pni", self.rotations, offsets))
        inside: npt.NDArray[np.bool_] = (local < self.half_sizes[None] + margin).all(axis=-1).any(axis=-1)
        return inside

    def _chosen(self, chosen: npt.NDArray[np.bool_] | list[int]) -> Boxes:
        return Boxes(self.centres[chosen], self.rotations[chosen], self.half_sizes[chosen])


class Scene:
    """The privileged view of one environment; every property is read from the simulator when it is asked for."""

    def __init__(self, environment: LiberoEnvironment) -> None:
        self._simulator = environment.simulator
        self._geometries = {name: self._find_geometries(name) for name in self._simulator.obj_body_id}

    @property
    def goals(self) -> list[Goal]:
        """The task's conditions in their official order."""
        return [Goal(*condition) for condition in self._simulator.parsed_problem["goal_state"]]

    def is_met(self, goal: Goal) -> bool:
        """Whether a condition holds now, by LIBERO's own predicate."""
        condition = [part for part in (goal.kind, goal.subject, goal.place) if part is not None]
        return bool(self._simulator._eval_predicate(condition))

    @property
    def hand(self) -> Vector:
        """The point between the finger tips."""
        return np.array(self._data.site_xpos[self._simulator.robots[0].eef_site_id])

    @property
    def hand_rotation(self) -> Rotation:
        """The hand's axes as columns: the first across the fingers, the third out of the hand."""
        return np.array(self._data.site_xmat[self._simulator.robots[0].eef_site_id]).reshape(3, 3)

    @property
    def robot_base(self) -> Vector:
        """Where the arm stands."""
        return np.array(self._simulator.robots[0].base_pos)

    @property
    def opening(self) -> float:
        """Metres between the fingers."""
        left, right = (self._data.qpos[index] for index in self._simulator.robots[0]._ref_gripper_joint_pos_indexes)
        return float(left - right)

    def position(self, name: str) -> Vector:
        """The origin of an object, a fixture or a region."""
        if name in self._simulator.obj_body_id:
            return np.array(self._data.xpos[self._simulator.obj_body_id[name]])
        return np.array(self._simulator.sim.data.get_site_xpos(name))

    def rotation(self, name: str) -> Rotation:
        """The axes of an object, a fixture or a region, as columns."""
        if name in self._simulator.obj_body_id:
            return np.array(self._data.xmat[self._simulator.obj_body_id[name]]).reshape(3, 3)
        return np.array(self._simulator.sim.data.get_site_xmat(name)).reshape(3, 3)

    def region_size(self, name: str) -> Vector | None:
        """Half the size of a region; None for what is no region."""
        region = self._simulator.object_sites_dict.get(name)
        return None if region is None else np.array(region.size, dtype=np.float64)

    def parent(self, name: str) -> str | None:
        """The object or fixture that a region belongs to, where it belongs to one."""
        region = self._simulator.object_sites_dict.get(name)
        return name if region is None else region.parent_name

    def joint(self, name: str) -> tuple[str, float]:
        """The name and position of a region's or a fixture's one joint."""
        owner = self._simulator.object_sites_dict.get(name) or self._simulator.get_object(name)
        joint = owner.joints[0]
        return joint, float(self._data.qpos[self._simulator.sim.model.get_joint_qpos_addr(joint)])

    def travel(self, joint: str) -> float:
        """How far a drawer's joint goes from where the drawer is shut: drawers open towards its lower end."""
        return -float(self._model.jnt_range[self._model.joint(joint).id][0])

    def opening_direction(self, drawer: str) -> Vector:
        """Which way a drawer slides out: LIBERO's drawers open against their joint's axis."""
        joint, _ = self.joint(drawer)
        return -np.array(self._data.xaxis[self._model.joint(joint).id])

    def is_drawer(self, name: str) -> bool:
        """Whether a region slides in and out of its fixture."""
        region = self._simulator.object_sites_dict.get(name)
        return region is not None and bool(region.joints)

    def is_door(self, name: str) -> bool:
        """Whether a fixture's one joint is an upright hinge that is shut at its upper end, as LIBERO's are."""
        if name not in self._simulator.obj_body_id or len(self._simulator.get_object(name).joints) != 1:
            return False
        joint = self._model.joint(self.joint(name)[0])
        is_upright = bool(self._data.xaxis[joint.id][2] > 0.9)
        return bool(joint.type[0] == _HINGE) and is_upright and float(joint.range[1]) <= 0.0

    def hinge(self, joint: str) -> Vector:
        """A point on a joint's axis."""
        return np.array(self._data.xanchor[self._model.joint(joint).id])

    def boxes(self, name: str) -> Boxes:
        """The collision boxes of an object or a fixture."""
        return self._boxes(self._geometries[name])

    def boxes_moved_by(self, joint: str) -> Boxes:
        """The collision boxes of what a joint moves: a drawer, a door, a knob."""
        model = self._model
        body = model.jnt_bodyid[model.joint(joint).id]
        geometries = [i for i in range(model.ngeom) if model.geom_bodyid[i] == body and self._is_collision(i)]
        return self._boxes(geometries)

    def boxes_at_rest(self, name: str) -> Boxes:
        """The collision boxes of what of a fixture no joint moves: its frame, without door and drawers."""
        model = self._model
        return self._boxes([i for i in self._geometries[name] if not model.body_jntnum[model.geom_bodyid[i]]])

    def obstacles(self, but: Sequence[str] = ()) -> Boxes:
        """The collision boxes of everything on the table, without the named objects."""
        geometries = [index for name, found in self._geometries.items() if name not in but for index in found]
        return self._boxes(geometries)

    @property
    def _data(self) -> Any:
        return self._simulator.sim.data._data

    @property
    def _model(self) -> Any:
        return self._simulator.sim.model._model

    def _is_collision(self, geometry: int) -> bool:
        model = self._model
        collides = bool(model.geom_contype[geometry] or model.geom_conaffinity[geometry])
        return collides and model.geom_group[geometry] == _COLLISION_GROUP

    def _find_geometries(self, name: str) -> list[int]:
        model = self._model
        root = model.body_rootid[self._simulator.obj_body_id[name]]
        if root == 0:  # the table and the floor belong to the world
            return []
        return [
            index
            for index in range(model.ngeom)
            if model.body_rootid[model.geom_bodyid[index]] == root and self._is_collision(index)
        ]

    def _boxes(self, geometries: Sequence[int]) -> Boxes:
        model, data = self._model, self._data
        index = np.array(geometries, dtype=np.int64)
        sizes = np.array(model.geom_size[index])
        rounded = model.geom_type[index] != _BOX
        sizes[rounded] = np.stack([sizes[rounded, 0], sizes[rounded, 0], sizes[rounded, :2].sum(axis=-1)], axis=-1)
        rotations = np.array(data.geom_xmat[index]).reshape(-1, 3, 3)
        return Boxes(np.array(data.geom_xpos[index]), rotations, sizes)
