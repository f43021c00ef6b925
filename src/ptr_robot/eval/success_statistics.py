"""How sure a success rate is, and a difference between two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ptr_robot.errors import ConfigError, require


@dataclass(frozen=True)
class Interval:
    """An estimate and the limits of its confidence interval."""

    estimate: float
    low: float
    high: float
    confidence: float = 0.95


def wilson_interval(num_successes: int, num_trials: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion: it stays within 0 and 1 and is honest at 0 and all successes."""
    _check_confidence(confidence)
    if not 0 <= num_successes <= num_trials or num_trials == 0:
        raise ConfigError(f"{num_successes} successes of {num_trials} trials is not a proportion")
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    rate = num_successes / num_trials
    shrink = 1.0 + z * z / num_trials
    centre = (rate + z * z / (2.0 * num_trials)) / shrink
    half_width = z / shrink * math.sqrt(rate * (1.0 - rate) / num_trials + (z / (2.0 * num_trials)) ** 2)
    low = 0.0 if num_successes == 0 else centre - half_width
    high = 1.0 if num_successes == num_trials else centre + half_width
    return Interval(rate, low, high, confidence)


def paired_t_interval(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> Interval:
    """Student's interval of the mean of ``first - second``; for few pairs, such as training seeds."""
    _check_confidence(confidence)
    _check_pairs(first, second)
    distribution = require("scipy.stats", "sim").t
    differences = np.subtract(first, second)
    mean = float(differences.mean())
    quantile = float(distribution.ppf(0.5 + confidence / 2.0, len(differences) - 1))
    half_width = quantile * float(differences.std(ddof=1)) / math.sqrt(len(differences))
    return Interval(mean, mean - half_width, mean + half_width, confidence)


def paired_bootstrap_interval(
    first: Sequence[float],
    second: Sequence[float],
    confidence: float = 0.95,
    num_resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap of the mean of ``first - second``; for many pairs, such as episodes of equal layout."""
    _check_confidence(confidence)
    _check_pairs(first, second)
    differences = np.subtract(first, second, dtype=np.float64)
    generator = np.random.default_rng(seed)
    means = [float(generator.choice(differences, size=len(differences)).mean()) for _ in range(num_resamples)]
    low, high = np.quantile(means, [0.5 - confidence / 2.0, 0.5 + confidence / 2.0])
    return Interval(float(differences.mean()), float(low), float(high), confidence)


def _check_confidence(confidence: float) -> None:
    if not 0.0 < confidence < 1.0:
        raise ConfigError(f"confidence={confidence} must lie between 0 and 1, for example 0.95")


def _check_pairs(first: Sequence[float], second: Sequence[float]) -> None:
    if len(first) != len(second) or len(first) < 2:
        raise ConfigError(
            f"a paired interval needs two equally long lists of at least 2, got {len(first)} and {len(second)}"
        )
