"""The faults of real operators, executed in the simulator: each takes the hand for some frames and gives it back."""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.arm import Action, Arm, Vector

Intention = Callable[[Vector], npt.NDArray[Any]]  # what the operator would do with its hand there, without the fault

_LIFT_SPEED = 0.8


@dataclass(frozen=True)
class Moment:
    """What a fault may know about the frame it acts in."""

    hand: Vector
    intend: Intention
    last_action: Action
    arm: Arm


class ExecutedFault(abc.ABC):
    """One fault in one episode; ``act`` is asked for every action until ``is_over``."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        self.is_over = False
        self.ends_episode = False

    @abc.abstractmethod
    def act(self, moment: Moment) -> npt.NDArray[Any]:
        """The faulty action of this frame."""

    @property
    @abc.abstractmethod
    def details(self) -> dict[str, Any]:
        """The drawn numbers, for the ground truth."""


class Jitter(ExecutedFault):
    """A trembling hand: white noise on every executed movement."""

    kind = "jitter"

    def __init__(self, num_frames: int, noise: float, generator: np.random.Generator) -> None:
        super().__init__()
        self._remaining = num_frames
        self._noise = noise
        self._generator = generator

    def act(self, moment: Moment) -> npt.NDArray[Any]:
        self._remaining -= 1
        self.is_over = self._remaining <= 0
        action = np.array(moment.intend(moment.hand), dtype=np.float64)
        action[:3] += self._generator.normal(0.0, self._noise, size=3)
        return action

    @property
    def details(self) -> dict[str, Any]:
        return {"noise": round(self._noise, 3)}


class Hesitation(ExecutedFault):
    """A stop in mid-task: the hand stands, or creeps back the way it came."""

    kind = "hesitation"

    def __init__(self, num_frames: int, retreat_speed: float) -> None:
        super().__init__()
        self._remaining = num_frames
        self._retreat_speed = retreat_speed
        self._direction: Vector | None = None

    def act(self, moment: Moment) -> npt.NDArray[Any]:
        self._remaining -= 1
        self.is_over = self._remaining <= 0
        if self._direction is None:
            self._direction = _unit(moment.last_action[:3].astype(np.float64))
        return moment.arm.action(-self._retreat_speed * self._direction, moment.last_action[-1])

    @property
    def details(self) -> dict[str, Any]:
        return {"retreat_speed": round(self._retreat_speed, 3)}


class Detour(ExecutedFault):
    """A way to the wrong place and back, with whatever the gripper holds."""

    kind = "detour"

    def __init__(self, displacement: Vector, speed: float) -> None:
        super().__init__()
        self._displacement = displacement
        self._speed = speed
        self._waypoints: deque[Vector] = deque()
        self._leg_frames = self._remaining_in_leg = 0

    def act(self, moment: Moment) -> npt.NDArray[Any]:
        hand = moment.hand
        if not self._waypoints:
            self._begin(hand, moment.arm)
        action = moment.arm.action(_move(hand, self._waypoints[0], self._speed), moment.last_action[-1])
        self._remaining_in_leg -= 1
        if np.linalg.norm(self._waypoints[0] - hand) < 0.02 or self._remaining_in_leg <= 0:
            self._remaining_in_leg = self._leg_frames
            self.is_over = len(self._waypoints) == 1
            if not self.is_over:
                self._waypoints.popleft()
        return action

    def _begin(self, hand: Vector, arm: Arm) -> None:
        """Out of reach the hand would press against the limit and stand still; a blocked leg ends after some frames."""
        self._waypoints.extend([arm.within_reach(hand + self._displacement), hand.copy()])
        frames = 1.5 * np.abs(self._displacement).max() / (arm.metres_per_step * self._speed)
        self._leg_frames = self._remaining_in_leg = int(np.ceil(frames)) + 5

    @property
    def details(self) -> dict[str, Any]:
        return {"displacement": self._displacement.round(3).tolist()}


class FailedAttempt(ExecutedFault):
    """A grasp, push or press beside the mark, then the hand goes up, open: to try again, or to give up.

    The expert is shown its hand in a shifted place, so it carries out the task a few centimetres off.
    """

    kind = "failed_attempt"

    def __init__(self, num_frames: int, miss: Vector, num_retreat_frames: int, is_retried: bool) -> None:
        super().__init__()
        self._remaining = num_frames + num_retreat_frames
        self._num_retreat_frames = num_retreat_frames
        self._miss = miss
        self._is_retried = is_retried

    def act(self, moment: Moment) -> npt.NDArray[Any]:
        self._remaining -= 1
        self.is_over = self._remaining <= 0
        self.ends_episode = self.is_over and not self._is_retried
        if self._remaining < self._num_retreat_frames:
            return moment.arm.action(np.array([0.0, 0.0, _LIFT_SPEED]), moment.arm.open_gripper)
        return moment.intend(moment.hand + self._miss)

    @property
    def details(self) -> dict[str, Any]:
        return {"miss": self._miss.round(3).tolist(), "is_retried": self._is_retried}


class LateActions(ExecutedFault):
    """Each action comes some frames after the observation that called for it."""

    kind = "late_actions"

    def __init__(self, num_frames: int, delay_frames: int) -> None:
        super().__init__()
        self._remaining = num_frames
        self._delay_frames = delay_frames
        self._pending: deque[npt.NDArray[Any]] = deque()

    def act(self, moment: Moment) -> npt.NDArray[Any]:
        self._remaining -= 1
        self.is_over = self._remaining <= 0
        if not self._pending:
            self._pending.extend([moment.last_action] * self._delay_frames)
        self._pending.append(np.array(moment.intend(moment.hand)))
        return self._pending.popleft()

    @property
    def details(self) -> dict[str, Any]:
        return {"delay_frames": self._delay_frames}


def _move(hand: Vector, target: Vector, speed: float) -> Vector:
    """A proportional movement towards ``target``, no faster than ``speed`` on any axis."""
    movement: Vector = np.clip(10.0 * (target - hand), -speed, speed)
    return movement


def _unit(vector: Vector) -> Vector:
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm > 1e-6 else np.zeros(3)
