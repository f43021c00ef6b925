"""From a channel's raw values to evidence with a known distribution among good episodes.

At first each channel is on its own: faults raise a value and nothing lowers it below what good episodes have, so the
densest part of a task's values, and what lies below it, shows how good ones are spread however many are faulty. Once
all channels have said which episodes are beyond suspicion (``reference_set``), the spread is that of those. Few
episodes estimate either badly, and good ones have outliers: the tail is Student's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

DENSE_SHARE = 0.4  # up to 60% of the episodes may be faulty
_SHARED_EPISODES = 8.0  # how many episodes the scale of all tasks counts as, against a task's own
_FAR = 2.0  # deviations above the centre: what lies beyond does not shape the spread of good ones
_LEAST_P = 1e-12
FEWEST_EPISODES = 6  # of a task whose own centre means anything
HEAP_SCORE = 3.0  # of the upper heap: worth a look, not enough to drop it, since two heaps may be two operators


@dataclass(frozen=True)
class NullDistribution:
    """Where good episodes of each task lie, and how far they are spread."""

    centres: dict[int, float]
    scales: dict[int, float]
    usual: tuple[float, float] | None  # of tasks with too few episodes; None: the channel says nothing at all
    lower_heap: NullDistribution | None = None  # of the lower one of two heaps, where the values make two

    @classmethod
    def of(
        cls, values: Values, tasks: NDArray[np.int64], floor: float, reference: NDArray[np.bool_] | None = None
    ) -> NullDistribution:  # (E,), (E,), ..., (E,)
        """From the values of a channel, NaN where it has none; of the ``reference`` episodes where there is one."""
        known = np.isfinite(values)
        moments_of = dense_moments
        if reference is not None and (known & reference).any():
            known, moments_of = known & reference, reference_moments
        if not known.any():
            return cls({}, {}, None)
        found = {int(task): values[known & (tasks == task)] for task in np.unique(tasks[known])}
        moments = {task: moments_of(own) for task, own in found.items() if len(own) >= FEWEST_EPISODES}
        counts = {task: len(found[task]) for task in moments}
        pooled = _pooled_variance([moments[task][1] for task in moments], list(counts.values()))
        scales = {
            task: math.sqrt((counts[task] * scale**2 + _SHARED_EPISODES * pooled) / (counts[task] + _SHARED_EPISODES))
            for task, (_, scale) in moments.items()
        }
        usual = moments_of(values[known])
        return cls(
            {task: centre for task, (centre, _) in moments.items()},
            {task: max(scale, floor) for task, scale in scales.items()},
            (usual[0], max(usual[1], floor)),
        )

    def centre(self, task: int) -> float:
        """Where a typical good episode of the task lies; NaN where nothing is known."""
        return float("nan") if self.usual is None else self.centres.get(task, self.usual[0])

    def standardise(self, values: Values, tasks: NDArray[np.int64]) -> Values:  # (n,), (n,) -> (n,)
        """Zero is a typical good episode of the task, one a deviation of good ones; NaN: nothing is known."""
        if self.usual is None:
            return np.full(len(values), np.nan)
        centres = np.array([self.centre(int(task)) for task in tasks])
        scales = np.array([self.scales.get(int(task), self.usual[1]) for task in tasks])
        scores: Values = (values - centres) / scales
        return scores

    def widened(self, other: NullDistribution) -> NullDistribution:
        """With the geometric mean of both spreads where the other's is wider; the centres stay."""
        if self.usual is None or other.usual is None:
            return self
        scales = {task: scale * _half_way(scale, other.scales.get(task, scale)) for task, scale in self.scales.items()}
        usual = self.usual[1] * _half_way(self.usual[1], other.usual[1])
        return replace(self, scales=scales, usual=(self.usual[0], usual))

    def lifted(self, values: Values, tasks: NDArray[np.int64]) -> Values:  # (n,), (n,) -> (n,)
        """Deviations from the lower of two heaps, as far as they count; NaN where the values make one."""
        if self.lower_heap is None:
            return np.full(len(values), np.nan)
        return np.minimum(self.lower_heap.standardise(values, tasks), HEAP_SCORE)


def reference_moments(values: Values) -> tuple[float, float]:
    """Median, and the deviation that the wider side's median distance stands for."""
    centre = float(np.median(values))
    both, above = np.abs(values - centre), values[values >= centre] - centre
    return centre, 1.4826 * max(float(np.median(both)), float(np.median(above)))


def dense_moments(values: Values) -> tuple[float, float]:
    """Centre and deviation of the good ones among values of which the higher part may be faulty."""
    ordered = np.sort(values)
    if len(ordered) < 3:
        return float(np.median(ordered)), float(ordered.std())
    size = max(3, math.ceil(DENSE_SHARE * len(ordered)))
    widths = ordered[size - 1 :] - ordered[: len(ordered) - size + 1]
    first = int(widths.argmin())
    centre = float(np.median(ordered[first : first + size]))
    scale = _lower_deviation(ordered, centre)
    for _ in range(5):
        near = ordered[np.abs(ordered - centre) <= _FAR * max(scale, 1e-12)]
        if len(near) < 3:
            break
        centre = float(near.mean())
        scale = _lower_deviation(ordered[ordered <= centre + _FAR * scale], centre)
    return centre, scale


def _lower_deviation(values: Values, centre: float) -> float:
    """Root mean square of what lies below the centre, spikes drawn in."""
    below = centre - values[values <= centre]
    if len(below) < 2:
        return float(values.std()) if len(values) else 0.0
    typical = 1.4826 * float(np.median(below)) if len(below) > 4 else float(below.max())
    return float(np.sqrt(np.mean(np.minimum(below, 3.0 * max(typical, 1e-12)) ** 2)))


def _half_way(scale: float, wider: float) -> float:
    """The factor from one scale to the geometric mean with another one; never below one."""
    return math.sqrt(max(1.0, wider / scale)) if scale > 0 else 1.0


def _pooled_variance(scales: list[float], counts: list[int]) -> float:
    return float(np.average(np.square(scales), weights=counts)) if scales else 0.0


def degrees_of_freedom(num_episodes: int) -> int:
    """Of the tail: few episodes know their own spread badly; even where there are many, good ones have outliers."""
    return 4 if num_episodes < 24 else 6 if num_episodes < 60 else 8


def tail_probability(scores: Values, degrees: int) -> Values:
    """P(T >= score) of Student's t with an even number of degrees of freedom, in closed form; NaN becomes 1/2."""
    scores = np.nan_to_num(scores, nan=0.0)
    angle = np.arctan(np.abs(scores) / math.sqrt(degrees))
    cosine_squared = np.cos(angle) ** 2
    term, total = np.ones_like(angle), np.ones_like(angle)
    for step in range(1, degrees // 2):
        term = term * (2 * step - 1) / (2 * step) * cosine_squared
        total = total + term
    upper = 0.5 * (1.0 - np.sin(angle) * total)
    tail: Values = np.where(scores >= 0, upper, 1.0 - upper)
    return np.clip(tail, _LEAST_P, 1.0)
