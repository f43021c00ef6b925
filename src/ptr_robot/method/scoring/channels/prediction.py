"""What an episode does, against what models that never saw it expect of the situations that it is in.

Three questions of one form, each answered by cross-fitted regressions of the episode's task: which action chunk is
recorded here, in which direction does the observation change, and how fast does it change?
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement, Values, spread_to_frames
from ptr_robot.method.scoring.null_distribution import dense_moments
from ptr_robot.method.scoring.recordings import Array, Recording, Recordings, chunk_starts
from ptr_robot.method.scoring.ridge import NUM_FEATURES, FoldedRidge, RidgeProblem

_MOST_ROWS = 40  # of an episode
_MOST_SAMPLES = 120_000
_LEAST = 1e-3
_NUM_REFITS = 2  # without what the fit before found suspicious
_TEMPERATURE = 0.1
_POOL_SIZE = 256
_EPISODES_OF_A_GROUP = 64  # from which its usual surprise is taken

Cut = Callable[[Recording], tuple[NDArray[np.int64], Array, Array]]  # frames (n,), inputs (n, D), targets (n, K)


@dataclass(frozen=True)
class Samples:
    """What the regressions of one group of tasks learn from."""

    inputs: Array
    targets: Array
    folds: NDArray[np.int64]
    owners: NDArray[np.int64]  # places among the recordings


class Expectation:
    """A folded regression for every group of tasks, fitted again without the episodes that it does not explain."""

    def __init__(
        self,
        recordings: Recordings,
        cut: Cut,
        name: str,
        seed: int,
        num_refits: int = _NUM_REFITS,
        num_features: int = NUM_FEATURES,
    ) -> None:
        self.cut, self.num_refits, self.num_features = cut, num_refits, num_features
        self.models: dict[int, FoldedRidge] = {}
        self.usual: dict[int, Values] = {}
        groups = sorted({episode.group for episode in recordings.episodes})
        self.skill = dict.fromkeys(groups, 0.0)
        for group in groups:
            samples = _samples(recordings, group, cut)
            if samples is None:
                continue
            self._fit(group, samples, recordings, np.random.default_rng([seed, group, len(name), ord(name[0])]))

    def _fit(self, group: int, samples: Samples, recordings: Recordings, generator: np.random.Generator) -> None:
        problem = RidgeProblem(
            samples.inputs, samples.targets, samples.folds, recordings.num_folds, generator, self.num_features
        )
        importance: NDArray[np.float64] = np.ones(len(samples.folds))
        for _ in range(1 + self.num_refits):
            model, errors = problem.fit(importance)
            importance = explained_trust(errors, samples.owners)
        variance = _weighted_mean((samples.targets - samples.targets.mean(axis=0)) ** 2, importance)
        mean_square = _weighted_mean(errors**2, importance)
        self.models[group] = model
        self.usual[group] = np.sqrt(mean_square) + _LEAST
        self.skill[group] = 1.0 - float(mean_square.sum() / max(float(variance.sum()), 1e-12))

    def trust(self, episode: Recording) -> Values:  # (n,)
        """Of the rows of ``errors``: one where such situations are well known, towards zero where they are new."""
        rows, inputs, _ = self.cut(episode)
        if episode.group not in self.models or not len(rows):
            return np.zeros(0)
        return 1.0 / (1.0 + self.models[episode.group].novelty(inputs, episode.fold))

    def errors(self, episode: Recording) -> tuple[NDArray[np.int64], Values, Values, Array]:
        """Frames, errors, predictions and targets; no frames where the episode is short or its tasks unknown."""
        rows, inputs, targets = self.cut(episode)
        if episode.group not in self.models or not len(rows):
            return rows[:0], np.zeros((0, targets.shape[1])), np.zeros((0, targets.shape[1])), targets[:0]
        predicted = self.models[episode.group].predict(inputs, episode.fold)
        return rows, predicted - targets, predicted, targets


def _samples(recordings: Recordings, group: int, cut: Cut) -> Samples | None:
    inputs, targets, folds, owners = [], [], [], []
    for place, episode in enumerate(recordings.episodes):
        if episode.group == group:
            rows, own_inputs, own_targets = cut(episode)
            inputs.append(own_inputs)
            targets.append(own_targets)
            folds.append(np.full(len(rows), episode.fold))
            owners.append(np.full(len(rows), place))
    everything = np.concatenate(folds)
    if len(np.unique(everything)) < 2 or len(np.unique(np.concatenate(owners))) < 4:
        return None
    return Samples(np.concatenate(inputs), np.concatenate(targets), everything, np.concatenate(owners))


def explained_trust(errors: Values, owners: NDArray[np.int64]) -> NDArray[np.float64]:  # (N, K), (N,) -> (N,)
    """One for the samples of episodes that are explained as well as good ones are, less for the others."""
    places = np.unique(owners, return_inverse=True)[1]
    sums = np.bincount(places, weights=(errors**2).mean(axis=1))
    values = np.log(sums / np.bincount(places) + 1e-9)
    centre, scale = dense_moments(values)
    scores = (values - centre) / max(scale, 0.1)
    trust: NDArray[np.float64] = np.minimum(1.0, (2.0 / np.maximum(scores, 2.0)) ** 2)[places]
    return trust


def _weighted_mean(values: Values, importance: NDArray[np.float64]) -> Values:  # (N, K), (N,) -> (K,)
    return np.asarray((values * importance[:, None]).sum(axis=0) / importance.sum())


class PredictionChannel(Channel):
    """A channel that compares with an expectation; it knows nothing where the expectation does not."""

    is_contextual = True
    is_drawn = True

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:
        """None where no task's held-out predictions are better than the mean."""
        most = rows_of_an_episode(recordings)
        expectation = Expectation(recordings, self.cutter(recordings, most), self.name, seed)
        if not expectation.models or max(expectation.skill.values()) <= 0.02:
            return None
        return self.fitted(expectation, recordings, seed)

    @abstractmethod
    def cutter(self, recordings: Recordings, most: int) -> Cut:
        """What is predicted from what."""

    @abstractmethod
    def fitted(self, expectation: Expectation, recordings: Recordings, seed: int) -> FittedChannel:
        """The channel that measures by it."""


def rows_of_an_episode(recordings: Recordings) -> int:
    """How many frames are looked at: fewer of each where there are many episodes."""
    return max(6, min(_MOST_ROWS, _MOST_SAMPLES // max(1, len(recordings))))


def observed(episode: Recording, rows: NDArray[np.int64]) -> Array:  # (n, Ds + K)
    """State and look at these frames."""
    return np.concatenate([episode.states[rows], episode.looks_at(rows)], axis=1)


class WhichAction(PredictionChannel):
    """Actions that nobody else takes in such a situation."""

    name = "action"
    reason = "acts otherwise than others do in such situations"

    def cutter(self, recordings: Recordings, most: int) -> Cut:
        """Four moments of the chunk, from the observation at its start."""
        length = recordings.chunk_length
        steps = np.linspace(0, length - 1, 4).round().astype(np.int64)

        def cut(episode: Recording) -> tuple[NDArray[np.int64], Array, Array]:
            rows = chunk_starts(episode.num_frames, length - 1, most)
            chunks = episode.actions[rows[:, None] + steps]
            return rows, observed(episode, rows), chunks.reshape(len(rows), len(steps) * episode.actions.shape[1])

        return cut

    def fitted(self, expectation: Expectation, recordings: Recordings, seed: int) -> FittedChannel:  # noqa: ARG002
        """By squared error."""
        return SquaredError(expectation)


class SquaredError(FittedChannel):
    """By how much an episode differs from what is expected of it."""

    def __init__(self, expectation: Expectation) -> None:
        self.expectation = expectation

    def measure(self, episode: Recording) -> Measurement:
        """The logarithm of the mean squared error in usual ones."""
        rows, errors, _, _ = self.expectation.errors(episode)
        if not len(rows):
            return Measurement(float("nan"))
        squares = np.minimum((errors / self.expectation.usual[episode.group]) ** 2, 100.0).mean(axis=1)
        squares = squares * self.expectation.trust(episode)
        frames = spread_to_frames(rows, np.log(squares + _LEAST), episode.num_frames)
        return Measurement(float(np.log(squares.mean() + _LEAST)), frames)


class WhichConsequence(PredictionChannel):
    """Changes of the observation that such situations do not lead to."""

    name = "outcome"
    reason = "leads elsewhere than such situations usually do"

    def cutter(self, recordings: Recordings, most: int) -> Cut:
        """The direction of the change over a chunk, from the observation at its start."""
        length = recordings.chunk_length

        def cut(episode: Recording) -> tuple[NDArray[np.int64], Array, Array]:
            rows = chunk_starts(episode.num_frames, length, most)
            changes = observed(episode, rows + length) - observed(episode, rows)
            return rows, observed(episode, rows), unit(changes)

        return cut

    def fitted(self, expectation: Expectation, recordings: Recordings, seed: int) -> FittedChannel:
        """By identification among the changes of other chunks."""
        generator = np.random.default_rng([seed, 5])
        pools: dict[int, Array] = {}
        for group in expectation.models:
            chosen = [episode for episode in recordings.episodes if episode.group == group]
            order = generator.permutation(len(chosen))[:64]
            targets = np.concatenate([expectation.cut(chosen[place])[2] for place in order])
            pools[group] = targets[generator.permutation(len(targets))[:_POOL_SIZE]]
        plain = _Identification(expectation, pools, {})
        return _Identification(expectation, pools, plain.usual_surprise(recordings))


class _Identification(FittedChannel):
    """The posterior of the recorded change among itself and a pool, as the paper has it."""

    def __init__(self, expectation: Expectation, pools: dict[int, Array], usual: dict[int, float]) -> None:
        self.expectation, self.pools, self.usual = expectation, pools, usual

    def usual_surprise(self, recordings: Recordings) -> dict[int, float]:
        """Of the median chunk of each group: what a chunk that nothing is known of counts as."""
        found: dict[int, list[Values]] = {group: [] for group in self.expectation.models}
        for episode in recordings.episodes:
            parts = found.get(episode.group)
            if parts is not None and len(parts) < _EPISODES_OF_A_GROUP:
                rows, _, predicted, targets = self.expectation.errors(episode)
                if len(rows):
                    parts.append(self._surprise(episode.group, predicted, targets))
        return {group: float(np.median(np.concatenate(parts))) for group, parts in found.items() if parts}

    def measure(self, episode: Recording) -> Measurement:
        """Minus the mean log posterior over uniform, in nats, against the usual one."""
        rows, _, predicted, targets = self.expectation.errors(episode)
        if not len(rows):
            return Measurement(float("nan"))
        surprise = self._surprise(episode.group, predicted, targets)
        excess = (surprise - self.usual.get(episode.group, 0.0)) * self.expectation.trust(episode)
        return Measurement(float(excess.mean()), spread_to_frames(rows, excess, episode.num_frames))

    def _surprise(self, group: int, predicted: Values, targets: Array) -> Values:  # (n, D), (n, D) -> (n,)
        queries = unit(predicted)
        matched = (queries * targets).sum(axis=1) / _TEMPERATURE
        logits = np.concatenate([matched[:, None], queries @ self.pools[group].T / _TEMPERATURE], axis=1)
        highest = logits.max(axis=1)
        normaliser = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
        surprise: Values = normaliser - matched - np.log(logits.shape[1])
        return surprise


def unit(values: NDArray[np.floating]) -> Array:  # (n, D)
    """Of length one; what is nearly zero stays small."""
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    shortened: Array = (values / (lengths + 1e-3)).astype(np.float32)
    return shortened


class Pace(PredictionChannel):
    """Slow where others are quick: hesitation, though the whole may be as fast as any."""

    name = "pace"
    reason = "hesitates where others move"
    floor = 0.15

    def cutter(self, recordings: Recordings, most: int) -> Cut:
        """The logarithm of the speed over a quarter of a second, from the observation."""
        horizon = max(2, round(recordings.fps / 4))
        steps = [np.abs(np.diff(episode.states[::horizon], axis=0)) for episode in recordings.episodes]
        sizes = [step.mean() for step in steps if len(step)] or [0.0]
        least = 0.05 * float(np.median(sizes)) * np.sqrt(recordings.episodes[0].states.shape[1]) + 1e-6

        def cut(episode: Recording) -> tuple[NDArray[np.int64], Array, Array]:
            rows = chunk_starts(episode.num_frames, horizon, most)
            moved = np.linalg.norm(episode.states[rows + horizon] - episode.states[rows], axis=1, keepdims=True)
            return rows, observed(episode, rows), np.log(moved + least).astype(np.float32)

        return cut

    def fitted(self, expectation: Expectation, recordings: Recordings, seed: int) -> FittedChannel:  # noqa: ARG002
        """By how much slower than expected, against the episode's own usual speed."""
        return _TooSlow(expectation)


class _TooSlow(FittedChannel):
    def __init__(self, expectation: Expectation) -> None:
        self.expectation = expectation

    def measure(self, episode: Recording) -> Measurement:
        """The mean of what is beyond half a logarithm slower than the episode is elsewhere."""
        rows, errors, _, _ = self.expectation.errors(episode)
        if len(rows) < 4:
            return Measurement(float("nan"))
        slower = errors[:, 0] - max(0.0, float(np.quantile(errors[:, 0], 0.4)))
        excess = np.maximum(slower - 0.5, 0.0)
        return Measurement(float(np.log(excess.mean() + 0.1)), spread_to_frames(rows, excess, episode.num_frames))
