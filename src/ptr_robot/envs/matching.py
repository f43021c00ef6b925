"""Episodes of matched length: faults take time, and length alone would give them away."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ptr_robot.envs.operators import OperatorConfig
from ptr_robot.envs.performance import Demonstration, DemonstrationSeeds, Pace, perform, rehearse
from ptr_robot.envs.scripted import Workplace

_EXPERT = OperatorConfig("the expert itself", (1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0, 0), tremor=(0.0, 0.0))
_STRETCH = (1.6, 2.6)  # how much longer than the expert's an episode is
_PATIENCE = 1.15  # who has not succeeded after so many times the longest episode stops
_SLOWEST_SPEED = 0.25
_NUM_SPEED_TRIALS = 2
_NUM_PAUSE_TRIALS = 1
_TOLERANCE_FRAMES = 4


@dataclass(frozen=True)
class FittedEpisode:
    """An episode at the pace that brought it closest to its length."""

    pace: Pace
    expected: int  # frames without rests and faults
    demonstration: Demonstration


def expert_length(workplace: Workplace, seeds: DemonstrationSeeds) -> int:
    """The frames that the expert needs in this layout, which all lengths are measured by."""
    return rehearse(workplace, _EXPERT, seeds, Pace())


def fit_pace(
    workplace: Workplace, config: OperatorConfig, seeds: DemonstrationSeeds, expert_frames: int
) -> FittedEpisode:
    """The episode at the pace at which it comes closest to the length that is drawn for it.

    The length depends on the layout and on chance, and not on the operator. First the top speed is fitted; near the
    object an operator keeps its speed, so what is missing then is filled with short rests.
    """
    target = expert_frames * np.random.default_rng([seeds.operator, 2]).uniform(*_STRETCH)
    limit = min(workplace.limits.most, round(_PATIENCE * _STRETCH[1] * expert_frames))
    trials = _Trials(workplace, config, seeds, target)
    speed = 0.6
    for _ in range(_NUM_SPEED_TRIALS):
        if abs(trials.missing(Pace(speed, limit=limit))) <= _TOLERANCE_FRAMES:
            break
        ratio = 1.0 - trials.missing(Pace(speed, limit=limit)) / target
        speed = float(np.clip(speed * ratio, _SLOWEST_SPEED, 1.0))
    pace = trials.best.pace
    for _ in range(_NUM_PAUSE_TRIALS):
        missing = round(trials.missing(pace))
        if abs(missing) <= _TOLERANCE_FRAMES or pace.pause_frames + missing <= 0:
            break
        pace = replace(pace, pause_frames=pace.pause_frames + missing)
    trials.missing(pace)
    return trials.best


class _Trials:
    """An episode at the paces that were tried; nothing is simulated twice."""

    def __init__(self, workplace: Workplace, config: OperatorConfig, seeds: DemonstrationSeeds, target: float) -> None:
        self._episode = (workplace, config, seeds)
        self._target = target
        self._expected: dict[float | None, int] = {}  # by speed
        self._tried: dict[Pace, FittedEpisode] = {}

    def missing(self, pace: Pace) -> float:
        """How many frames the episode is too short at this pace; negative where it is too long."""
        if pace.speed not in self._expected:
            self._expected[pace.speed] = rehearse(*self._episode, pace)
        if pace not in self._tried:
            expected = self._expected[pace.speed]
            self._tried[pace] = FittedEpisode(pace, expected, perform(*self._episode, pace, expected))
        return self._target - self._tried[pace].demonstration.num_frames

    @property
    def best(self) -> FittedEpisode:
        """The trial whose length is closest to the target."""
        return self._tried[min(self._tried, key=lambda pace: abs(self.missing(pace)))]
