"""What an environment brings to recording: a scripted expert that does its tasks, and the limits of its arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ptr_robot.envs.arm import Arm, Expert
from ptr_robot.envs.base import Environment, EnvironmentType, StepLimits
from ptr_robot.envs.operators import OPERATORS, OperatorConfig


@dataclass(frozen=True)
class ScriptedRobot:
    """An environment's arm, the scripts of its tasks, and the operators that record them."""

    arm: Arm
    make_expert: Callable[[Environment], Expert]  # of the task of an environment; its script begins anew
    operators: Mapping[str, OperatorConfig] = field(default_factory=lambda: OPERATORS)


@dataclass(frozen=True)
class Workplace:
    """Where an operator works: one task, the robot in it, and when who does not succeed stops."""

    environment: Environment
    robot: ScriptedRobot
    limits: StepLimits

    @staticmethod
    def of(environment_type: EnvironmentType, environment: Environment) -> Workplace:
        """The workplace of one of the type's tasks."""
        return Workplace(environment, environment_type.scripted, environment_type.step_limits(environment.task))
