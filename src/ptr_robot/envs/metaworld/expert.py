"""Meta-World's scripted experts: what operators follow, and a policy of their own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.arm import Arm, Vector
from ptr_robot.envs.base import Environment
from ptr_robot.envs.metaworld.environment import ACTION_DIM, ENVIRONMENT_STATE_KEY, MetaWorldEnvironment
from ptr_robot.envs.metaworld.tasks import resolve_task
from ptr_robot.envs.offscreen import choose_backend
from ptr_robot.errors import require

ARM = Arm(
    action_size=ACTION_DIM,
    reachable_low=(-0.35, 0.45, 0.08),
    reachable_high=(0.35, 0.85, 0.40),
    metres_per_step=0.01,
    open_gripper=-1.0,
)
_CONTACT_METRES = 0.10
_HAND, _OBJECT = slice(0, 3), slice(4, 7)  # in the environment's state


def make_policy(task: str) -> Any:
    """Meta-World's own policy of a task; ``get_action`` maps an environment state to an action."""
    choose_backend()
    # The experts ask for more than the robot's top speed at every far target, and say so each time.
    warnings.filterwarnings("ignore", message=r"Constant\(s\) may be too high")
    return require("metaworld.policies", "sim").ENV_POLICY_MAP[resolve_task(task)]()


class MetaWorldExpert:
    """The policy of an environment's task, shown the hand where somebody believes it to be."""

    def __init__(self, environment: Environment) -> None:
        if not isinstance(environment, MetaWorldEnvironment):
            raise TypeError(f"Meta-World's experts act in its own environments, not in {type(environment).__name__}")
        self._environment = environment
        self._policy = make_policy(environment.task)

    @property
    def hand(self) -> Vector:
        """Where the hand is now."""
        place: Vector = self._environment.environment_state[_HAND].copy()
        return place

    def act(self, hand: Vector) -> npt.NDArray[Any]:  # (4,)
        """The policy's action."""
        shown = self._environment.environment_state.copy()
        shown[_HAND] = hand
        action: npt.NDArray[Any] = np.clip(self._policy.get_action(shown), -1.0, 1.0)
        return action

    def is_near_object(self, hand: Vector) -> bool:
        """Whether the object is within a hand's breadth."""
        return bool(np.linalg.norm(hand - self._environment.environment_state[_OBJECT]) < _CONTACT_METRES)


class _Episode(Protocol):
    @property
    def task(self) -> str: ...


class _Observed(Protocol):
    slot: int
    states: Mapping[str, npt.NDArray[np.float32]]


class ExpertPolicy:
    """The experts as a policy of rollouts, one action a chunk; it never looks at an image."""

    def __init__(self) -> None:
        self._experts: dict[int, Any] = {}

    def reset(self, slot: int, episode: _Episode) -> None:
        """An episode begins in ``slot``."""
        self._experts[slot] = make_policy(episode.task)

    def act(self, observations: Sequence[_Observed]) -> npt.NDArray[Any]:  # (N, 1, 4)
        """The expert's next action in each episode."""
        chosen = [
            self._experts[observation.slot].get_action(observation.states[ENVIRONMENT_STATE_KEY].astype(np.float64))
            for observation in observations
        ]
        actions: npt.NDArray[Any] = np.clip(np.stack(chosen), -1.0, 1.0)
        return actions[:, None]
