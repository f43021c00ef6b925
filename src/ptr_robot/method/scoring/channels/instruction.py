"""Does an episode follow the instruction that it has, or another one of the dataset better?

By Bayes' rule an episode is evidence for an instruction in three ways: what a classifier says that sees observation,
change and action, and how much likelier the recorded actions and changes are under models of that instruction. Each
counts by how well it predicts the given instructions (``calibration``). What is found becomes the labels of the next
round, since models that learnt from wrong labels excuse them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from ptr_robot.method.scoring.calibration import trusted_scales, weight_of_given
from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement, Values
from ptr_robot.method.scoring.channels.prediction import (
    Expectation,
    WhichAction,
    WhichConsequence,
    observed,
    unit,
)
from ptr_robot.method.scoring.recordings import FEWEST_OF_A_TASK, Array, Recording, Recordings, chunk_starts
from ptr_robot.method.scoring.ridge import FoldedRidge, RidgeProblem

_MOST_ROWS = 16  # of an episode
_MOST_SAMPLES = 60_000
_NUM_FEATURES = 96
_MOST_CANDIDATES = 40  # beyond which models of single instructions are not asked
_MOST_ROUNDS = 4
_LUCK = 2.0  # deviations of the rate by chance
_LEAST_SKILL = 0.05
_SHARPNESS = 4.0  # of the classifier's one-hot regression, before it is calibrated


@dataclass(frozen=True, eq=False)
class InstructionModels:
    """Models of every candidate instruction, fitted under some labels."""

    candidates: NDArray[np.int64]  # (K,) tasks
    groups: tuple[int, ...]  # (K,) the same as the expectations number them
    classifier: FoldedRidge
    expectations: tuple[Expectation, ...]
    rows: int
    length: int
    offsets: Values  # (3, K) what each candidate gets on average: none is favoured for being easily predicted
    scales: Values  # (3,)

    def evidence(self, episode: Recording) -> Values:  # (3, K)
        """Log likelihoods up to a constant, the mean over the episode's chunks."""
        parts = [self._classified(episode), *(self._likely(episode, one) for one in self.expectations)]
        return np.stack(parts) - self.offsets

    def together(self, episode: Recording) -> Values:  # (K,)
        """All evidence, each kind as far as it is trusted."""
        total: Values = np.einsum("j,jk->k", self.scales, self.evidence(episode))
        return total

    def _classified(self, episode: Recording) -> Values:
        inputs = around(episode, self.length, self.rows)
        if not len(inputs):
            return np.zeros(len(self.candidates))
        logits = _SHARPNESS * self.classifier.predict(inputs, episode.fold)
        highest = logits.max(axis=1, keepdims=True)
        posteriors = logits - highest - np.log(np.exp(logits - highest).sum(axis=1, keepdims=True))
        mean: Values = posteriors.mean(axis=0)
        return mean

    def _likely(self, episode: Recording, expectation: Expectation) -> Values:
        rows, inputs, targets = expectation.cut(episode)
        found = np.zeros(len(self.candidates))
        if not len(rows) or len(self.candidates) > _MOST_CANDIDATES:
            return found
        for column, group in enumerate(self.groups):
            errors = expectation.models[group].predict(inputs, episode.fold) - targets
            usual = expectation.usual[group]
            squares = np.minimum((errors / usual) ** 2, 50.0).sum(axis=1)
            log_widths = float(np.log(usual).sum())
            found[column] = -(0.5 * squares.mean() + log_widths) / np.sqrt(targets.shape[1])
        return found


def around(episode: Recording, length: int, most: int) -> Array:  # (n, inputs)
    """All that is recorded of some chunks but the instruction."""
    rows = chunk_starts(episode.num_frames, length, most)
    before, after = observed(episode, rows), observed(episode, rows + length)
    first, middle = episode.actions[rows], episode.actions[rows + length // 2]
    return np.concatenate([before, unit(after - before), first, middle], axis=1).astype(np.float32)


class Instruction(Channel):
    """Episodes that follow another instruction than the one they have."""

    name = "instruction"
    reason = "another instruction fits better"
    is_contextual = False
    is_drawn = True
    floor = 0.5

    def fit(
        self, recordings: Recordings, seed: int, first: NDArray[np.int64] | None = None
    ) -> FittedInstruction | None:
        """None where fewer than two instructions have enough episodes; ``first`` are labels that were found before."""
        given = recordings.tasks
        numbers, counts = np.unique(given, return_counts=True)
        candidates = numbers[counts >= FEWEST_OF_A_TASK]
        if len(candidates) < 2:
            return None
        is_judged = np.isin(given, candidates)
        columns = np.searchsorted(candidates, given[is_judged])
        likely, scales = (given if first is None else first).copy(), None
        is_known = bool((likely != given).any())  # found in another draw
        for number in range(_MOST_ROUNDS):
            models = _fit_models(recordings.with_tasks(likely.tolist()), candidates, seed)
            if models is None:
                return None
            evidence = np.stack([models.evidence(episode) for episode in recordings.episodes], axis=1)  # (3, E, K)
            if scales is None:
                judged = torch.from_numpy(evidence[:, is_judged])
                scales = trusted_scales(judged, torch.from_numpy(columns)).double().numpy()
            together = np.einsum("j,jek->ek", scales, evidence)
            # Later rounds, which learn from what was found, agree with it whether it is right or not.
            if number == 0 and not is_known:
                is_known = _skill(together[is_judged], columns) > _LEAST_SKILL
            found = _likeliest(together, given, candidates, is_judged, columns)
            if number + 1 == _MOST_ROUNDS or (found == likely).all():
                return FittedInstruction(replace(models, scales=scales), is_known)
            likely = found
        raise AssertionError("the last round returns")


def _fit_models(recordings: Recordings, candidates: NDArray[np.int64], seed: int) -> InstructionModels | None:
    most = max(4, min(_MOST_ROWS, _MOST_SAMPLES // max(1, len(recordings))))
    expectations = tuple(
        Expectation(recordings, channel.cutter(recordings, most), channel.name, seed, 0, _NUM_FEATURES)
        for channel in (WhichAction(), WhichConsequence())
    )
    groups = []
    for task in candidates:
        own = [episode.group for episode in recordings.episodes if episode.task == task]
        if not own or not all(own[0] in one.models for one in expectations):
            return None
        groups.append(own[0])
    if len(set(groups)) < len(groups):
        return None
    parts = [around(episode, recordings.chunk_length, most) for episode in recordings.episodes]
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    codes = (recordings.tasks[owners][:, None] == candidates).astype(np.float32)  # (N, K)
    folds = np.array([episode.fold for episode in recordings.episodes])[owners]
    generator = np.random.default_rng([seed, 23])
    problem = RidgeProblem(np.concatenate(parts), codes, folds, recordings.num_folds, generator, _NUM_FEATURES)
    classifier, _ = problem.fit()
    zero = np.zeros((3, len(candidates)))
    plain = InstructionModels(
        candidates, tuple(groups), classifier, expectations, most, recordings.chunk_length, zero, np.ones(3)
    )
    evidence = np.stack([plain.evidence(episode) for episode in recordings.episodes])  # (E, 3, K)
    means = [evidence[recordings.tasks == task].mean(axis=0) for task in candidates]
    return replace(plain, offsets=np.mean(means, axis=0))


def _likeliest(
    together: Values,
    given: NDArray[np.int64],
    candidates: NDArray[np.int64],
    is_judged: NDArray[np.bool_],
    columns: NDArray[np.int64],
) -> NDArray[np.int64]:
    posteriors = torch.from_numpy(together).log_softmax(dim=1)
    known = torch.from_numpy(is_judged)
    weight = weight_of_given(posteriors[known].exp(), torch.from_numpy(columns))
    posteriors[known.nonzero().squeeze(1), torch.from_numpy(columns)] += weight
    return np.where(is_judged, candidates[posteriors.argmax(dim=1).numpy()], given)


def _skill(together: Values, columns: NDArray[np.int64]) -> float:  # (E, K), (E,)
    """How much oftener than chance makes it the given instruction is the likeliest one, every instruction alike.

    Naming the commonest instruction is no skill, so the rate is a mean over instructions; and a few hits more than one
    in K may be luck, so that much is taken off.
    """
    is_right = together.argmax(axis=1) == columns
    numbers, counts = np.unique(columns, return_counts=True)
    rate = float(np.mean([is_right[columns == number].mean() for number in numbers]))
    chance = 1.0 / together.shape[1]
    deviation = np.sqrt(chance * (1.0 - chance) * float((1.0 / counts).mean()) / len(numbers))
    return float((rate - _LUCK * deviation - chance) / (1.0 - chance))


class FittedInstruction(FittedChannel):
    """Measures the odds against the instruction that an episode has."""

    def __init__(self, models: InstructionModels, is_known: bool) -> None:
        self.models, self.is_known = models, is_known

    def measure(self, episode: Recording) -> Measurement:
        """The soft positive part of the log odds: a right instruction is right, however clearly."""
        against = self.odds_against(episode)
        return Measurement(float(np.logaddexp(0.0, against)) if np.isfinite(against) else float("nan"))

    def odds_against(self, episode: Recording) -> float:
        """Log odds of all other candidates together against the given one; NaN where it is no candidate."""
        column = np.flatnonzero(self.models.candidates == episode.task)
        if not len(column) or not self.is_known:
            return float("nan")
        together = self.models.together(episode)
        others = np.delete(together, column[0])
        return float(np.logaddexp.reduce(others) - together[column[0]])

    def likeliest(self, episode: Recording) -> tuple[int, float]:
        """The instruction that fits best, and its posterior."""
        together = self.models.together(episode)
        posterior = np.exp(together - np.logaddexp.reduce(together))
        best = int(posterior.argmax())
        return int(self.models.candidates[best]), float(posterior[best])
