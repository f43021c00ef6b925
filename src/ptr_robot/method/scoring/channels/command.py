"""Are the recorded actions those that the robot carried out?

One linear model for the whole dataset, since the robot is the same in every task: from the states shortly before and
after a moment to the action recorded there. Where the states follow the actions it is precise, and whatever parts the
two shows in its errors: dimensions that changed places, other units, a shift in time, noise on the record alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement, Values, spread_to_frames
from ptr_robot.method.scoring.channels.prediction import explained_trust
from ptr_robot.method.scoring.recordings import Array, Recording, Recordings, chunk_starts
from ptr_robot.method.scoring.ridge import FoldedRidge, RidgeProblem

_SECONDS = (-0.1, -0.05, 0.0, 0.05, 0.1, 0.2, 0.33)  # of the states around an action
_MOST_ROWS = 200  # of an episode
_MOST_SAMPLES = 100_000
_LEAST_SKILL = 0.2  # share of a dimension's variance that held-out predictions explain
_LEAST = 1e-3
_MOST = 400.0  # squared deviations: beyond it wrong is wrong
_LEAST_ERROR = 0.05  # of a dimension's deviation: what is predicted better than this was carried out
_LEAST_SPREAD = 0.15  # of a dimension's log errors over episodes
_NUM_WORST = 2  # dimensions that count: two of many may have changed places
_MOTION_SECONDS = 0.1  # before and after a moment, over which is looked how much moves
_NUM_LEVELS = 8  # of motion, each with as many samples
_LEAST_FACTOR = 0.25  # of the usual squared error: what hardly moves is not predicted any better than that


class Command(Channel):
    """Recorded actions that the motion does not go with."""

    name = "command"
    reason = "recorded actions are not those that the robot carried out"
    is_contextual = True
    is_drawn = True
    floor = 0.5

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:
        """None where the states say nothing about the actions."""
        offsets = np.unique(np.round(np.array([*_SECONDS, 1 / recordings.fps, -1 / recordings.fps]) * recordings.fps))
        most = max(6, min(_MOST_ROWS, _MOST_SAMPLES // max(1, len(recordings))))
        parts = [
            _samples(episode, chunk_starts(episode.num_frames, 0, most), offsets.astype(np.int64))
            for episode in recordings.episodes
        ]
        counts = [len(actions) for _, actions in parts]
        inputs, actions = (np.concatenate(column) for column in zip(*parts, strict=True))
        owners = np.repeat(np.arange(len(parts)), counts)
        folds = np.repeat([episode.fold for episode in recordings.episodes], counts)
        if len(inputs) <= 2 * inputs.shape[1] or len(np.unique(folds)) < 2:
            return None
        problem = RidgeProblem(
            inputs, actions, folds, recordings.num_folds, np.random.default_rng([seed, 13]), num_features=0
        )
        _, errors = problem.fit()
        deviation = actions.std(axis=0) + 1e-6
        model, errors = problem.fit(explained_trust(errors / deviation, owners))
        errors = np.minimum(np.abs(errors), np.quantile(np.abs(errors), 0.9, axis=0))
        mean_square = (errors**2).mean(axis=0)
        usual = np.maximum(np.sqrt(mean_square), _LEAST_ERROR * deviation)
        known = np.flatnonzero((1.0 - mean_square / deviation**2 > _LEAST_SKILL) & (deviation > 1e-4))
        if not len(known):
            return None
        reach = max(1, round(_MOTION_SECONDS * recordings.fps))
        plain = _FittedCommand(model, offsets.astype(np.int64), known, usual[known], most, reach)
        return plain.by_motion(recordings).calibrated(recordings)


def _samples(
    episode: Recording, rows: NDArray[np.int64], offsets: NDArray[np.int64]
) -> tuple[Array, Array]:  # (n, offsets * Ds), (n, Da)
    places = np.clip(rows[:, None] + offsets, 0, episode.num_frames - 1)
    return episode.states[places].reshape(len(rows), -1), episode.actions[rows]


@dataclass(frozen=True, eq=False)
class _FittedCommand(FittedChannel):
    model: FoldedRidge
    offsets: NDArray[np.int64]
    dimensions: NDArray[np.int64]
    usual: Values  # errors (dimensions,)
    most: int  # rows of an episode
    reach: int  # frames
    levels: Values = field(default_factory=lambda: np.zeros(1))  # (L,) of motion, ascending
    factors: Values = field(default_factory=lambda: np.ones((1, 1)))  # (L, dimensions) of squared errors there
    centres: float | Values = 0.0  # (dimensions,) of an episode's log errors
    spreads: float | Values = 1.0

    def by_motion(self, recordings: Recordings) -> _FittedCommand:
        """The same, knowing how much larger errors are where much moves: a quick moment is harder to tell."""
        parts = [(episode, *self._squares(episode)) for episode in recordings.episodes]
        motion = np.concatenate([self._motion(episode, rows) for episode, rows, _ in parts])
        squares = np.concatenate([own for _, _, own in parts])
        edges = np.unique(np.quantile(motion, np.arange(1, _NUM_LEVELS) / _NUM_LEVELS))  # moments that stand still tie
        level = np.searchsorted(edges, motion)
        groups = [level == number for number in np.unique(level)]
        factors = [np.minimum(own, np.quantile(own, 0.9, axis=0)).mean(axis=0) for own in (squares[g] for g in groups)]
        levels = np.array([np.median(motion[group]) for group in groups])
        return replace(self, levels=levels, factors=np.maximum(np.stack(factors), _LEAST_FACTOR))

    def calibrated(self, recordings: Recordings) -> _FittedCommand:
        """The same, knowing how the errors of each dimension are spread over episodes."""
        logs = np.stack([self._log_errors(self._squares(e)[1]) for e in recordings.episodes if e.num_frames])
        centres = np.median(logs, axis=0)
        spreads = np.maximum(1.4826 * np.median(np.abs(logs - centres), axis=0), _LEAST_SPREAD)
        return replace(self, centres=centres, spreads=spreads)

    def measure(self, episode: Recording) -> Measurement:
        """How many deviations the worst dimensions' errors are larger than elsewhere."""
        rows, squares = self._squares(episode)
        if not len(rows):
            return Measurement(float("nan"))
        scores = np.sort((self._log_errors(squares) - self.centres) / self.spreads)
        frames = spread_to_frames(rows, np.log(squares.mean(axis=1) + _LEAST), episode.num_frames)
        return Measurement(float(scores[-_NUM_WORST:].mean()), frames)

    def _squares(self, episode: Recording) -> tuple[NDArray[np.int64], Values]:  # (n,), (n, dimensions)
        rows = chunk_starts(episode.num_frames, 0, self.most)
        inputs, actions = _samples(episode, rows, self.offsets)
        errors = (self.model.predict(inputs, episode.fold) - actions)[:, self.dimensions] / self.usual
        trust = 1.0 / (1.0 + self.model.novelty(inputs, episode.fold))  # a pose that no other episode has
        motion = self._motion(episode, rows)
        expected = np.stack([np.interp(motion, self.levels, column) for column in self.factors.T], axis=1)
        return rows, np.minimum(errors**2 / expected, _MOST) * trust[:, None]

    def _motion(self, episode: Recording, rows: NDArray[np.int64]) -> Values:  # (n,) -> (n,)
        """How much states and actions change around these moments, as a logarithm."""
        before, after = (np.clip(rows + step, 0, episode.num_frames - 1) for step in (-self.reach, self.reach))
        changes = [np.abs(part[after] - part[before]).mean(axis=1) for part in (episode.states, episode.actions)]
        return np.asarray(np.log(changes[0] + changes[1] + _LEAST), dtype=np.float64)

    @staticmethod
    def _log_errors(squares: Values) -> Values:  # (n, dimensions) -> (dimensions,)
        return np.asarray(0.5 * np.log1p(squares.mean(axis=0)))
