"""One rule for all channels: how strongly an episode's evidence together speaks against it.

Of every channel a share π of episodes is taken to be faulty, with tail probabilities p like Beta(a, 1); the others are
uniform. Their log likelihood ratio log(1 − π + π a p^(a−1)) is close to zero for an episode that the channel finds
ordinary, whatever the other channels say: a channel without outliers adds no noise, one with outliers counts by how far
they stand out. The ratios of all channels are added up. π and a are fitted without labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.null_distribution import degrees_of_freedom, tail_probability

Values = NDArray[np.float64]

_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)  # the smallest always stays: what was never seen may come
_SHAPES = (0.1, 0.15, 0.2, 0.3, 0.4)
_PRIOR_EPISODES = 12.0  # how many good episodes each channel is thought to have seen before
_LEAST_DECAY = 0.5  # nats over which chance evidence becomes e times rarer, at least
DOUBT = 1.0  # nats of evidence from which an episode weighs less: below it hardly anything speaks against one
LEAST_EVIDENCE = 2.0  # nats that it takes to drop an episode, however few of the good would be lost


@dataclass(frozen=True)
class Mixture:
    """Of one channel."""

    share: float  # π
    shape: float  # a

    def log_ratios(self, probabilities: Values) -> Values:
        """Of faulty against good."""
        ratios: Values = np.log1p(self.share * (self.shape * probabilities ** (self.shape - 1.0) - 1.0))
        return ratios


def fit_mixture(probabilities: Values) -> Mixture:  # (E,)
    """The likeliest share and shape on a grid."""
    options = [Mixture(share, shape) for share in _SHARES for shape in _SHAPES]
    return max(
        options,
        key=lambda one: float(one.log_ratios(probabilities).sum()) + _PRIOR_EPISODES * float(np.log1p(-one.share)),
    )


@dataclass(frozen=True)
class Combination:
    """Evidence of all channels, put together."""

    degrees: int
    mixtures: tuple[Mixture, ...]  # one a channel
    threshold: float  # nats of evidence from which an episode is dropped
    mirrored: Values  # (n,) ascending: what good episodes would have by chance alone
    max_false_exclusions: float  # share of good episodes that may be dropped by mistake

    def evidence(self, scores: Values) -> Values:  # (E, C) -> (E,) nats against each episode
        """Sums of log likelihood ratios; a channel without a score says nothing."""
        return evidence_under(self.mixtures, scores, self.degrees)

    def contributions(self, scores: Values) -> Values:  # (E, C) -> (E, C)
        """Of each channel."""
        return contributions_under(self.mixtures, scores, self.degrees)

    def false_exclusion(self, evidence: Values) -> Values:  # (n,) -> (n,)
        """The share of good episodes that have as much evidence against them by chance.

        Counted where there is something to count, and beyond it a tail that falls off exponentially.
        """
        knee = max(1, len(self.mirrored) // 10)
        level = self.mirrored[len(self.mirrored) - knee]
        decay = max(float((self.mirrored[-knee:] - level).mean()), _LEAST_DECAY)
        above = len(self.mirrored) - np.searchsorted(self.mirrored, evidence, side="left")
        counted = (above + 0.5) / (len(self.mirrored) + 1.0)
        beyond = (knee + 0.5) / (len(self.mirrored) + 1.0) * np.exp(-np.maximum(evidence - level, 0.0) / decay)
        return np.asarray(np.where(evidence > level, np.minimum(beyond, counted), counted))


def contributions_under(mixtures: Sequence[Mixture], scores: Values, degrees: int | None = None) -> Values:
    """Log likelihood ratios (E, C) of standardised evidence; NaN, which says nothing, has none."""
    degrees = degrees_of_freedom(len(scores)) if degrees is None else degrees
    ratios = [
        mixture.log_ratios(tail_probability(column, degrees))
        for column, mixture in zip(scores.T, mixtures, strict=True)
    ]
    return np.where(np.isfinite(scores), np.stack(ratios, axis=1), 0.0)


def evidence_under(mixtures: Sequence[Mixture], scores: Values, degrees: int | None = None) -> Values:
    """Their sums (E,)."""
    total: Values = contributions_under(mixtures, scores, degrees).sum(axis=1)
    return total


def combine(scores: Values, max_false_exclusions: float) -> Combination:  # (E, C)
    """Fit the mixtures, and find from where on at most that share of good episodes is lost.

    Scores of good episodes lie around zero on both sides. Turned round, those of an episode that hardly anything speaks
    against are a draw of what chance makes of a good one, with the channels' dependence as it is. Those of a faulty one
    are not: a fault that one channel sees may be far below what is usual to another.
    """
    degrees = degrees_of_freedom(len(scores))
    mixtures = tuple(_of_channel(column, degrees) for column in scores.T)
    is_good = evidence_under(mixtures, scores, degrees) < DOUBT
    mirrored = np.sort(evidence_under(mixtures, -scores[is_good if is_good.any() else slice(None)], degrees))
    allowed = int(max_false_exclusions * is_good.sum())
    beyond = mirrored[len(mirrored) - allowed - 1] if len(mirrored) else 0.0
    threshold = max(LEAST_EVIDENCE, float(beyond) + 1e-9)
    return Combination(degrees, mixtures, threshold, mirrored, max_false_exclusions)


def _of_channel(column: Values, degrees: int) -> Mixture:
    known = column[np.isfinite(column)]
    if not len(known):
        return Mixture(_SHARES[0], _SHAPES[2])
    return fit_mixture(tail_probability(known, degrees))
