"""Episodes of matched length: faults take time, and length alone would give them away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptr_robot.sim.environment import MAX_STEPS, MetaWorldEnvironment
from ptr_robot.sim.operators import OperatorConfig
from ptr_robot.sim.performance import DemonstrationSeeds, Pace, attempt

_EXPERT = OperatorConfig("the expert itself", (1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0, 0), tremor=(0.0, 0.0))
_STRETCH = (1.6, 2.6)  # how much longer than the expert's an episode is
_PATIENCE = 1.15  # who has not succeeded after so many times the longest episode stops
_SLOWEST_SPEED = 0.25
_NUM_SPEED_TRIALS = 3
_NUM_PAUSE_TRIALS = 2
_TOLERANCE_FRAMES = 4


def fit_pace(environment: MetaWorldEnvironment, config: OperatorConfig, seeds: DemonstrationSeeds) -> Pace:
    """The pace at which an episode comes closest to the length that is drawn for it.

    The length depends on the layout and on chance, and not on the operator. First the top speed is fitted; near the
    object an operator keeps its speed, so what is missing then is filled with short rests.
    """
    expert_frames = attempt(environment, _EXPERT, seeds, Pace()).num_frames
    target = expert_frames * np.random.default_rng([seeds.operator, 2]).uniform(*_STRETCH)
    limit = min(MAX_STEPS, round(_PATIENCE * _STRETCH[1] * expert_frames))
    trials = _Trials(environment, config, seeds, target)
    speed = 0.6
    for _ in range(_NUM_SPEED_TRIALS):
        ratio = trials.num_frames(Pace(speed, limit=limit)) / target
        speed = float(np.clip(speed * ratio, _SLOWEST_SPEED, 1.0))
    pace = trials.best
    for _ in range(_NUM_PAUSE_TRIALS):
        missing = round(target) - trials.num_frames(pace)
        if abs(missing) <= _TOLERANCE_FRAMES or pace.pause_frames + missing <= 0:
            break
        pace = replace(pace, pause_frames=pace.pause_frames + missing)
    trials.num_frames(pace)
    return trials.best


class _Trials:
    """The lengths of an episode at the paces that were tried."""

    def __init__(
        self, environment: MetaWorldEnvironment, config: OperatorConfig, seeds: DemonstrationSeeds, target: float
    ) -> None:
        self._episode = (environment, config, seeds)
        self._target = target
        self._num_frames: dict[Pace, int] = {}

    def num_frames(self, pace: Pace) -> int:
        """How long the episode is at this pace; the same pace is not tried twice."""
        if pace not in self._num_frames:
            self._num_frames[pace] = attempt(*self._episode, pace).num_frames
        return self._num_frames[pace]

    @property
    def best(self) -> Pace:
        """The pace whose length is closest to the target."""
        return min(self._num_frames, key=lambda pace: abs(self._num_frames[pace] - self._target))
