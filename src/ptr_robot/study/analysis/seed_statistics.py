"""How sure a study is: intervals over training seeds, which are what varies between two runs of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ptr_robot.errors import require
from ptr_robot.eval.success_statistics import Interval, paired_t_interval, wilson_interval

Outcomes = Mapping[int, NDArray[np.float64]]  # by seed: (episodes,) 1 or 0, on layouts that methods share

NUM_RESAMPLES = 4000
CONFIDENCE = 0.95


def mean_interval(values: Sequence[float]) -> Interval:
    """Student's interval of the mean over seeds; of one seed nothing is known but its value."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, math.nan, math.nan, CONFIDENCE)
    quantile = float(require("scipy.stats", "sim").t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1))
    half_width = quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Interval(mean, mean - half_width, mean + half_width, CONFIDENCE)


def success_rate(method: Outcomes) -> Interval:
    """The mean over seeds with Student's interval, at least as wide as Wilson's of all episodes."""
    over_seeds = mean_interval([float(values.mean()) for values in method.values()])
    if math.isnan(over_seeds.low):
        return over_seeds
    outcomes = np.concatenate(list(method.values()))
    alone = wilson_interval(int(outcomes.sum()), len(outcomes), CONFIDENCE)
    return _hull(over_seeds, alone.low, alone.high, lowest=0.0)


def paired_difference(method: Outcomes, baseline: Outcomes) -> Interval | None:
    """Student's interval of the difference in success over the seeds that both have; None where they share none."""
    seeds = shared_seeds(method, baseline)
    if not seeds:
        return None
    first, second = [[float(part[seed].mean()) for seed in seeds] for part in (method, baseline)]
    if len(seeds) < 2:
        return Interval(first[0] - second[0], math.nan, math.nan, CONFIDENCE)
    return paired_t_interval(first, second, CONFIDENCE)


def success_difference(method: Outcomes, baseline: Outcomes) -> Interval | None:
    """The same for outcomes of single episodes, at least as wide as these alone leave it.

    Few seeds may agree by chance: Student's interval would then be as good as nothing, though every seed's rates are
    counts of so many episodes. Their part is Agresti and Min's interval of paired proportions: half an episode is added
    to each of the four ways in which two outcomes can fall.
    """
    over_seeds = paired_difference(method, baseline)
    if over_seeds is None or math.isnan(over_seeds.low):
        return over_seeds
    differences = np.concatenate([method[seed] - baseline[seed] for seed in shared_seeds(method, baseline)])
    count = len(differences) + 2
    centre = float(differences.sum()) / count
    variance = (float(np.square(differences).sum()) + 1) / count - centre**2
    half_width = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * math.sqrt(variance / count)
    return _hull(over_seeds, centre - half_width, centre + half_width, lowest=-1.0)


def _hull(over_seeds: Interval, low: float, high: float, lowest: float) -> Interval:
    """The interval over seeds and that of the episodes alone in one, within what is possible."""
    low, high = max(lowest, min(over_seeds.low, low)), min(1.0, max(over_seeds.high, high))
    return Interval(over_seeds.estimate, low, high, CONFIDENCE)


def cluster_bootstrap(method: Outcomes, baseline: Outcomes, seed: int = 0) -> Interval | None:
    """The same difference with a bootstrap of two levels: seeds are drawn anew, and within each its layouts."""
    seeds = shared_seeds(method, baseline)
    if not seeds:
        return None
    differences = [method[number] - baseline[number] for number in seeds]
    generator = np.random.default_rng(seed)
    drawn = generator.integers(len(seeds), size=(NUM_RESAMPLES, len(seeds)))
    means = np.empty(drawn.shape)
    for place, values in enumerate(differences):
        is_here = drawn == place  # a seed that is drawn twice gets two draws of its layouts
        layouts = generator.integers(len(values), size=(int(is_here.sum()), len(values)))
        means[is_here] = values[layouts].mean(axis=1)
    estimate = float(np.mean([values.mean() for values in differences]))
    return Interval(estimate, *_quantiles(means.mean(axis=1)), CONFIDENCE)


def gap_share(method: Outcomes, baseline: Outcomes, upper_bound: Outcomes) -> Interval | None:
    """The share of the way from the baseline to the upper bound, with Fieller's interval over seeds.

    None where the gap's own interval reaches zero or cannot be told: a share of nothing means nothing.
    """
    gap = success_difference(upper_bound, baseline)
    seeds = sorted({*shared_seeds(method, baseline)} & {*shared_seeds(upper_bound, baseline)})
    if gap is None or not gap.low > 0 or not seeds:
        return None
    gains = np.array([method[number].mean() - baseline[number].mean() for number in seeds])
    gaps = np.array([upper_bound[number].mean() - baseline[number].mean() for number in seeds])
    if gaps.mean() <= 0:
        return None
    return Interval(float(gains.mean() / gaps.mean()), *_fieller(gains, gaps), CONFIDENCE)


def _fieller(gains: NDArray[np.float64], gaps: NDArray[np.float64]) -> tuple[float, float]:  # (seeds,) each
    """The shares ρ for which Student's interval of gain − ρ gap holds zero; NaN where they have no two ends.

    They lie between the roots of a ρ² − 2 b ρ + c, and do so where the gap's own interval leaves zero out.
    """
    if len(gains) < 2:
        return math.nan, math.nan
    quantile = float(require("scipy.stats", "sim").t.ppf(0.5 + CONFIDENCE / 2, len(gains) - 1))
    (of_gain, of_both), (_, of_gap) = quantile**2 * np.cov(gains, gaps) / len(gains)
    gain, gap = gains.mean(), gaps.mean()
    a, b, c = gap**2 - of_gap, gain * gap - of_both, gain**2 - of_gain
    if a <= 0:
        return math.nan, math.nan
    spread = math.sqrt(max(b**2 - a * c, 0.0))
    return float((b - spread) / a), float((b + spread) / a)


def shared_seeds(first: Outcomes, second: Outcomes) -> list[int]:
    """The seeds that both have."""
    return sorted(first.keys() & second.keys())


def _quantiles(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(values, [0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2])
    return float(low), float(high)
