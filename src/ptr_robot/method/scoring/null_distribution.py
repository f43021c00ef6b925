"""From a channel's raw values to evidence with a known distribution among good episodes.

At first each channel is on its own: faults raise a value and nothing lowers it below what good episodes have, so the
densest part of a task's values, and what lies below it, shows how good ones are spread however many are faulty. Once
all channels have said which episodes are beyond suspicion (``reference_set``), the spread is that of those. Few
episodes estimate either badly, and good ones have outliers: the tail is Student's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

DENSE_SHARE = 0.4  # up to 60% of the episodes may be faulty
_SHARED_EPISODES = 8.0  # how many episodes the scale of all tasks counts as, against a task's own
_FAR = 2.0  # deviations above the centre: what lies beyond does not shape the spread of good ones
_LEAST_P = 1e-12
_MEDIAN_VARIANCE = 1.57  # of a median of n values of variance 1, times n
_FEWEST_TASKS = 3  # whose centres show how far tasks differ
FEWEST_EPISODES = 4  # of a task whose own centre means anything
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
        if not known.any():
            return cls({}, {}, None)
        trusted = known if reference is None or not (known & reference).any() else known & reference
        moments_of = dense_moments if reference is None else reference_moments
        centre, scale = moments_of(values[trusted])
        usual = (centre, max(scale, floor))
        found: dict[int, _TaskMoments] = {}
        for task, places in _places_by_task(tasks).items():
            own, good = values[places[known[places]]], values[places[trusted[places]]]
            if len(good) >= FEWEST_EPISODES:
                found[task] = _TaskMoments(*moments_of(good), len(good))
            elif len(own) >= FEWEST_EPISODES:  # beside other tasks' centre all of it might look strange
                found[task] = _TaskMoments(*dense_moments(own), len(own))
        if not found:
            return cls({}, {}, usual)
        is_found = known & np.isin(tasks, list(found))
        residuals = values - np.array([found[task].centre if task in found else np.nan for task in tasks.tolist()])
        pooled = dense_moments(residuals[is_found])[1]
        if reference is not None and (is_found & trusted).any():
            pooled = max(pooled, reference_moments(residuals[is_found & trusted])[1])
        return cls(*_shrunk(found, pooled, floor), usual)

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
        if self.lower_heap is None:
            return scores
        return np.maximum(scores, np.minimum(self.lower_heap.standardise(values, tasks), HEAP_SCORE))


def _places_by_task(tasks: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """The episodes of each."""
    order = np.argsort(tasks, kind="stable")
    numbers, firsts = np.unique(tasks[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, firsts[1:]), strict=True))


@dataclass(frozen=True)
class _TaskMoments:
    """Of one task's values by themselves."""

    centre: float
    scale: float
    num_episodes: int


def _shrunk(found: dict[int, _TaskMoments], pooled: float, floor: float) -> tuple[dict[int, float], dict[int, float]]:
    """Centres and scales of the tasks, drawn towards all tasks' as far as their own are not known (empirical Bayes).

    Where their centres differ by no more than medians of so few values do, they are one; where tasks really differ,
    each keeps its own, and what is not known of it widens its scale.
    """
    variances = {task: _MEDIAN_VARIANCE * pooled**2 / one.num_episodes for task, one in found.items()}  # of centres
    own = np.array([one.centre for one in found.values()])
    middle, between = float(np.median(own)), math.inf
    if len(own) >= _FEWEST_TASKS:
        between = max(0.0, float(own.var(ddof=1)) - float(np.mean(list(variances.values()))))
    centres, scales = {}, {}
    for task, one in found.items():
        trust = 1.0 if math.isinf(between) or variances[task] == 0 else between / (between + variances[task])
        centres[task] = middle + trust * (one.centre - middle)
        shares = one.num_episodes * one.scale**2 + _SHARED_EPISODES * pooled**2
        within = shares / (one.num_episodes + _SHARED_EPISODES)
        scales[task] = math.sqrt(max(within, floor**2) + trust * variances[task])
    return centres, scales


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


def degrees_of_freedom(num_episodes: int, num_of_a_task: int | None = None) -> int:
    """Of the tail: few episodes know their own spread badly; even where there are many, good ones have outliers.

    Where a task has few, what its models predict of the one that they did not see is off by far every now and then.
    """
    of_all = 4 if num_episodes < 24 else 6 if num_episodes < 60 else 8
    if num_of_a_task is None:
        return of_all
    return min(of_all, 4 if num_of_a_task < 14 else 8)


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
