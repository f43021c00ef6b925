"""Which episodes are beyond suspicion: grown from the least suspicious ones, by all channels together.

Each channel by itself cannot tell a dataset of good episodes that differ from one whose better part is good. Together
they can: an episode that no channel finds strange belongs to the good ones, and how far such episodes are spread is how
far good ones are. The set starts with those that the densest part of every channel accepts, takes its spread for the
good ones', widened since it began with the middle, and grows until nothing joins or leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.combination import Mixture, evidence_under
from ptr_robot.method.scoring.heaps import upper_heap
from ptr_robot.method.scoring.null_distribution import DENSE_SHARE, NullDistribution

Values = NDArray[np.float64]
Standardise = Callable[[tuple[NullDistribution, ...]], Values]  # -> (E, C)

_EXPECTED = Mixture(share=0.05, shape=0.2)  # of every channel, before anything is known of its faults
_ORDINARY = 2.5  # deviations: what no channel finds further from good episodes is one of them
_MOST_ROUNDS = 12
_WIDENING = 0.8  # of a spread that was estimated on the middle of a distribution


def calibrate(
    values: Values,  # (E, C)
    tasks: NDArray[np.int64],  # (E, C) that each channel compares within
    floors: tuple[float, ...],  # (C,)
    compares: tuple[bool, ...],  # (C,) with other episodes: what is rare looks wrong to it
) -> tuple[tuple[NullDistribution, ...], Values, NDArray[np.bool_]]:
    """Null distributions of all channels, the standardised values (E, C), and the reference episodes (E,)."""
    nulls = _fit(values, tasks, floors, None)
    scores = standardise(values, tasks, nulls)
    reference = _least_suspicious(evidence_under([_EXPECTED] * len(floors), scores), tasks[:, 0])
    for _ in range(_MOST_ROUNDS):
        nulls = _fit(values, tasks, floors, reference)
        scores = standardise(values, tasks, nulls)
        grown = np.asarray(~_is_strange(scores, reference).any(axis=1))
        if (grown == reference).all() or not grown.any():
            break
        reference = grown
    count = _is_strange(scores, reference).sum(axis=1)
    others = [count - _is_strange(scores[:, [c]], reference)[:, 0] for c in range(len(floors))]
    nulls = tuple(
        _seen_by_others(null, values[:, c], tasks[:, c], floors[c], others[c] > 0) if compares[c] else null
        for c, null in enumerate(nulls)
    )
    nulls = tuple(with_heaps(null, values[:, c], tasks[:, c], floors[c]) for c, null in enumerate(nulls))
    return nulls, standardise(values, tasks, nulls), reference


def _is_strange(scores: Values, reference: NDArray[np.bool_]) -> NDArray[np.bool_]:  # (E, C), (E,) -> (E, C)
    """What is further from good episodes than they are, with the spread that a part of them shows widened."""
    widened = scores / (1.0 + _WIDENING * (1.0 - float(reference.mean())))
    return np.asarray(np.nan_to_num(widened, nan=0.0) >= _ORDINARY)


def _seen_by_others(
    null: NullDistribution, values: Values, tasks: NDArray[np.int64], floor: float, is_strange: NDArray[np.bool_]
) -> NullDistribution:
    """With a spread half-way to that of the episodes that no other channel finds strange.

    A channel that compares and chooses its own reference makes faults of the other half where good episodes differ much
    and a half of them is alike. Left to the others its reference holds the faults that it alone sees.
    """
    if is_strange.all():
        return null
    return null.widened(NullDistribution.of(values, tasks, floor, ~is_strange))


def with_heaps(null: NullDistribution, values: Values, tasks: NDArray[np.int64], floor: float) -> NullDistribution:
    """The same, knowing the lower heap where the channel's values make two once each task's centre is taken off."""
    centres = np.array([null.centre(int(task)) for task in tasks])
    is_upper = upper_heap(values - centres)
    if is_upper is None:
        return null
    return replace(null, lower_heap=NullDistribution.of(values, tasks, floor, np.isfinite(values) & ~is_upper))


def standardise(values: Values, tasks: NDArray[np.int64], nulls: tuple[NullDistribution, ...]) -> Values:  # (E, C)
    """Every channel in deviations of good episodes.

    That an episode is in a heap of its own counts once, in the channel that it lifts most: what sets a group apart
    (a quicker operator) is seen by many channels.
    """
    columns = [null.standardise(values[:, c], tasks[:, c]) for c, null in enumerate(nulls)]
    scores = np.stack(columns, axis=1)
    lifted = np.stack([null.lifted(values[:, c], tasks[:, c]) for c, null in enumerate(nulls)], axis=1)
    gains = np.where(lifted > scores, lifted - scores, 0.0)  # NaN is not
    rows, largest = np.arange(len(scores)), gains.argmax(axis=1)
    scores[rows, largest] += gains[rows, largest]
    return scores


def _fit(
    values: Values, tasks: NDArray[np.int64], floors: tuple[float, ...], reference: NDArray[np.bool_] | None
) -> tuple[NullDistribution, ...]:
    return tuple(NullDistribution.of(values[:, c], tasks[:, c], floor, reference) for c, floor in enumerate(floors))


def _least_suspicious(evidence: Values, tasks: NDArray[np.int64]) -> NDArray[np.bool_]:  # (E,), (E,) -> (E,)
    """Of every task the part that is good in any case."""
    chosen = np.zeros(len(evidence), dtype=np.bool_)
    for task in np.unique(tasks):
        rows = np.flatnonzero(tasks == task)
        chosen[rows[np.argsort(evidence[rows], kind="stable")[: int(np.ceil(DENSE_SHARE * len(rows)))]]] = True
    return chosen
