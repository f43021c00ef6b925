"""A script that does a LIBERO task: its goals one after the other, each by the skill it needs."""

from __future__ import annotations

import functools

import numpy as np

from ptr_robot.envs.arm import Arm
from ptr_robot.envs.base import Environment
from ptr_robot.envs.libero.cavity import Cavity, PutInside
from ptr_robot.envs.libero.door import CloseDoor
from ptr_robot.envs.libero.drawer import CloseDrawer, OpenDrawer
from ptr_robot.envs.libero.environment import ACTION_DIM, LiberoEnvironment
from ptr_robot.envs.libero.knob import TurnKnob
from ptr_robot.envs.libero.motion import OPEN
from ptr_robot.envs.libero.pick_and_place import PickAndPlace
from ptr_robot.envs.libero.scene import Goal, Scene, Vector
from ptr_robot.envs.libero.set_aside import SetAside, is_in_the_way
from ptr_robot.envs.libero.skill import Skill

# The suites' tables stand at different heights, from the floor to 0.9 m.
ARM = Arm(
    action_size=ACTION_DIM,
    reachable_low=(-0.45, -0.40, 0.02),
    reachable_high=(0.25, 0.40, 1.40),
    metres_per_step=0.012,
    open_gripper=OPEN,
)
_NEAR_METRES = 0.06
_SIDE_BY_SIDE_METRES = 0.042  # from the middle of a region that two objects share
# What has to be done first comes first: a stove is turned on before pots stand around, a drawer shut at the end.
_ORDER = {"open": 0, "turnon": 1, "on": 2, "in": 2, "close": 3}


class LiberoExpert:
    """Does a task from wherever the scene is; goals that are met already are left alone."""

    def __init__(self, environment: Environment) -> None:
        if not isinstance(environment, LiberoEnvironment):
            raise TypeError(f"LIBERO's experts act in its own environments, not in {type(environment).__name__}")
        self._scene = Scene(environment)

    @property
    def hand(self) -> Vector:
        """Where the hand is now."""
        return self._scene.hand

    def act(self, hand: Vector) -> Vector:  # (7,)
        """The next action of a hand that believes itself to be at ``hand``."""
        due = self.due
        return ARM.action(np.zeros(3), OPEN) if due is None else np.clip(due.act(hand), -1.0, 1.0)

    def is_near_object(self, hand: Vector) -> bool:
        """Whether the hand is at what it handles, where slowness could lose it."""
        due = self.due
        return due is not None and bool(np.linalg.norm(hand - due.handled) < _NEAR_METRES)

    @functools.cached_property
    def _skills(self) -> list[Skill]:
        """Planned at the first look, when the scene has been set up."""
        goals = sorted(self._scene.goals, key=lambda goal: _ORDER[goal.kind])
        return [skill for goal in goals for skill in self._plan(goal, goals)]

    @property
    def due(self) -> Skill | None:
        """The first skill whose goal is not met."""
        return next((skill for skill in self._skills if not skill.is_done()), None)

    def _plan(self, goal: Goal, goals: list[Goal]) -> list[Skill]:
        """The skills for one goal."""
        if goal.kind == "turnon":
            return [TurnKnob(self._scene, goal)]
        if goal.kind == "open":
            return [OpenDrawer(self._scene, goal)]
        if goal.kind == "close":
            return self._plan_to_close(goal)
        cavity = Cavity.find(self._scene, str(goal.place)) if goal.kind == "in" else None
        if cavity is not None and cavity.suits(self._scene.boxes(goal.subject)):
            return [PutInside(self._scene, goal, cavity)]
        place = PickAndPlace(self._scene, goal, self._share_of_place(goal, goals))
        if self._scene.is_drawer(str(goal.place)) and not self._scene.is_met(Goal("open", str(goal.place))):
            opened = OpenDrawer(self._scene, Goal("open", str(goal.place)))
            if is_in_the_way(self._scene, goal.subject, str(goal.place)):
                return [SetAside(self._scene, goal), opened, place]
            return [opened, place]
        return [place]

    def _plan_to_close(self, goal: Goal) -> list[Skill]:
        if self._scene.is_drawer(goal.subject):
            return [CloseDrawer(self._scene, goal)]
        return [CloseDoor(self._scene, goal)] if self._scene.is_door(goal.subject) else []

    def _share_of_place(self, goal: Goal, goals: list[Goal]) -> Vector:
        """Where in its place an object goes: objects that share one stand side by side."""
        sharing = [other for other in goals if other.place == goal.place and other.kind == goal.kind]
        if len(sharing) == 1:
            return np.zeros(3)
        side = -1.0 if sharing.index(goal) == 0 else 1.0
        return np.array([side * _SIDE_BY_SIDE_METRES, 0.0, 0.0])
