"""Do the recorded actions explain the recorded motion, and at the right time?

One linear model for the whole dataset, since the robot is the same in every task: from the state and the actions around
a moment to the change of the state that follows. Only dimensions that it predicts on held-out episodes count.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement, Values, spread_to_frames
from ptr_robot.method.scoring.recordings import Array, Recording, Recordings, chunk_starts
from ptr_robot.method.scoring.ridge import RidgeProblem

_MOST_ROWS = 32  # of an episode
_MOST_SAMPLES = 60_000
_LEAST_SKILL = 0.2  # share of a dimension's variance that held-out predictions explain
_LEAST = 1e-3


class _Dynamics:
    """The model, and which dimensions it knows."""

    def __init__(self, recordings: Recordings, seed: int) -> None:
        self.horizon = max(2, min(recordings.chunk_length, round(recordings.fps / 8)))
        self.reach = max(2, min(recordings.chunk_length, round(recordings.fps / 3)))  # frames an action may be late
        generator = np.random.default_rng([seed, 11])
        most = max(6, min(_MOST_ROWS, _MOST_SAMPLES // max(1, len(recordings))))
        self.most = most
        parts = [self.cut(episode) for episode in recordings.episodes]
        inputs, targets = (np.concatenate(column) for column in list(zip(*parts, strict=True))[1:])
        folds = np.concatenate(
            [np.full(len(rows), e.fold) for (rows, *_), e in zip(parts, recordings.episodes, strict=True)]
        )
        self.is_known = len(inputs) > 4 * inputs.shape[1] and len(np.unique(folds)) > 1
        self.dimensions: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        if not self.is_known:
            return
        problem = RidgeProblem(inputs, targets, folds, recordings.num_folds, generator, num_features=0)
        self.model, errors = problem.fit()
        errors = np.minimum(np.abs(errors), np.quantile(np.abs(errors), 0.9, axis=0))
        variance = targets.var(axis=0)
        skill = 1.0 - (errors**2).mean(axis=0) / np.maximum(variance, 1e-12)
        self.dimensions = np.flatnonzero((skill > _LEAST_SKILL) & (variance > 1e-10))
        self.is_known = len(self.dimensions) > 0
        self.usual = np.sqrt((errors**2).mean(axis=0))[self.dimensions] + _LEAST * np.sqrt(variance[self.dimensions])

    def cut(self, episode: Recording, shift: int = 0) -> tuple[NDArray[np.int64], Array, Array]:
        """Moments, inputs and changes of an episode, with the actions that lie ``shift`` frames later."""
        rows = chunk_starts(episode.num_frames, self.horizon, self.most)
        last = episode.num_frames - 1
        offsets = np.linspace(-self.horizon, self.horizon, 5).round().astype(np.int64)
        places = np.clip(rows[:, None] + offsets + shift, 0, last)  # (n, 5)
        commands = episode.actions[places].reshape(len(rows), len(offsets) * episode.actions.shape[1])
        inputs = np.concatenate([episode.states[rows], commands], axis=1)
        return rows, inputs, episode.states[rows + self.horizon] - episode.states[rows]

    def errors(self, episode: Recording, shifts: tuple[int, ...] = (0,)) -> tuple[NDArray[np.int64], Values]:
        """Moments (n,) and mean squared errors in usual ones, (shifts, n)."""
        parts = [self.cut(episode, shift) for shift in shifts]
        rows, targets = parts[0][0], parts[0][2]
        predicted = self.model.predict(np.concatenate([inputs for _, inputs, _ in parts]), episode.fold)
        wrong = predicted.reshape(len(shifts), *targets.shape) - targets
        return rows, np.minimum((wrong[..., self.dimensions] / self.usual) ** 2, 100.0).mean(axis=2)


@lru_cache(maxsize=1)
def fit_dynamics(recordings: Recordings, seed: int) -> _Dynamics:
    """Shared by the channels that ask it."""
    return _Dynamics(recordings, seed)


class ActionsExplainMotion(Channel):
    """Recorded actions that do not lead to the recorded motion: swapped dimensions, other units, lost packets."""

    name = "dynamics"
    reason = "actions do not explain the motion"
    is_contextual = True
    is_drawn = True

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:
        """None where actions predict no dimension of the state."""
        dynamics = fit_dynamics(recordings, seed)
        return _FittedDynamics(dynamics) if dynamics.is_known else None


class _FittedDynamics(FittedChannel):
    def __init__(self, dynamics: _Dynamics) -> None:
        self.dynamics = dynamics

    def measure(self, episode: Recording) -> Measurement:
        """The logarithm of the mean squared error."""
        rows, (errors,) = self.dynamics.errors(episode)
        if not len(rows):
            return Measurement(float("nan"))
        frames = spread_to_frames(rows, np.log(errors + _LEAST), episode.num_frames)
        return Measurement(float(np.log(errors.mean() + _LEAST)), frames)


class Timing(Channel):
    """Actions that lie earlier or later than in other episodes against the motion that they cause."""

    name = "timing"
    reason = "actions and observations are shifted in time"
    is_drawn = True
    floor = 0.5  # frames

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:
        """None where actions predict no dimension of the state."""
        dynamics = fit_dynamics(recordings, seed)
        if not dynamics.is_known:
            return None
        fitted = _FittedTiming(dynamics, 0.0)
        usual = float(np.nanmedian([fitted.shift(episode) for episode in recordings.episodes]))
        return _FittedTiming(dynamics, usual)


class _FittedTiming(FittedChannel):
    def __init__(self, dynamics: _Dynamics, usual: float) -> None:
        self.dynamics, self.usual = dynamics, usual

    def measure(self, episode: Recording) -> Measurement:
        """How many frames from the usual shift."""
        shift = self.shift(episode) - self.usual
        if np.isnan(shift):
            return Measurement(float("nan"))
        word = "late" if shift > 0 else "early"  # the action that belongs here lies that much later in the record
        return Measurement(abs(shift), note=f"actions are {abs(shift):.0f} frames {word}" if abs(shift) >= 1 else "")

    def shift(self, episode: Recording) -> float:
        """The shift of the actions under which they explain the motion best."""
        if episode.num_frames <= 2 * self.dynamics.reach:
            return float("nan")
        shifts = np.arange(-self.dynamics.reach, self.dynamics.reach + 1)
        errors = self.dynamics.errors(episode, tuple(shifts.tolist()))[1].mean(axis=1)
        best = int(errors.argmin())
        gain = np.log(errors[len(shifts) // 2] + _LEAST) - np.log(errors[best] + _LEAST)
        return float(shifts[best]) * float(np.clip(gain / 0.2, 0.0, 1.0))  # a flat minimum is no shift
