"""Two populations in the scores of episodes, or one: a mixture fitted without labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# Raised where equal scores come to lead to other weights: what was recorded of another version is run again.
POPULATIONS_VERSION = 2

_NUM_ITERATIONS = 60
_MIN_EPISODES = 8  # fewer say nothing about two populations
_MIN_SHARE = 0.02
_FIRST_SHARES = (0.15, 0.35, 0.6, 0.8)  # of faulty episodes, where fits begin
_SCALE_FLOOR = 0.25  # nats: smaller differences are no evidence, however alike the episodes are


@dataclass(frozen=True)
class TwoPopulations:
    """Good episodes around their task's level, faulty ones below it by a drop that all tasks share."""

    levels: Tensor  # (tasks,) the good ones' mean
    drop: float  # how far the faulty ones' mean is below, in nats
    good_scale: float
    faulty_scale: float
    faulty_share: float
    confidence: float  # 0 to 1: how surely there are two populations and not one, by their BIC

    def good_posterior(self, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,)
        """P(good | value); a value above the good ones' mean is taken for good whatever the tails say."""
        good, faulty = self._log_parts(values, tasks)
        return torch.where(values >= self.levels[tasks], 1.0, torch.sigmoid(good - faulty))

    def _log_parts(self, values: Tensor, tasks: Tensor) -> tuple[Tensor, Tensor]:
        levels = self.levels[tasks]
        good = log_normal(values, levels, self.good_scale) + math.log(1 - self.faulty_share)
        faulty = log_normal(values, levels - self.drop, self.faulty_scale) + math.log(self.faulty_share)
        return good, faulty


def fit_two_populations(values: Tensor, tasks: Tensor) -> TwoPopulations | None:  # (E,), (E,) int64 from 0
    """Expectation maximisation from several starts; None where there are too few episodes or all are alike.

    The faulty ones may differ more among themselves than the good ones, and never less.
    """
    values = values.double()
    num_tasks = int(tasks.max()) + 1 if len(tasks) else 0
    if (
        len(values) < _MIN_EPISODES
        or float((values - task_quantiles(values, tasks, num_tasks, 0.5)[tasks]).std()) < 1e-6
    ):
        return None
    single = _single_log_likelihood(values, tasks)
    fits = [_fit(values, tasks, num_tasks, share) for share in _FIRST_SHARES]
    likelihood, best = max(fits, key=lambda fit: fit[0])
    # Three parameters more than one population has: the drop, the second scale and the share.
    evidence = likelihood - single - 1.5 * math.log(len(values))
    return TwoPopulations(*best, confidence=1 / (1 + math.exp(-max(-50.0, min(50.0, evidence)))))


def task_moments(values: Tensor, tasks: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (E,), (E,) -> (tasks,) each
    """Mean, deviation (at least what counts as a difference) and number of the episodes of each task."""
    num_tasks = int(tasks.max()) + 1
    counts = torch.zeros(num_tasks).to(values).index_add_(0, tasks, torch.ones_like(values)).clamp_min(1)
    means = torch.zeros_like(counts).index_add_(0, tasks, values) / counts
    variances = torch.zeros_like(counts).index_add_(0, tasks, (values - means[tasks]).square()) / counts
    return means, variances.sqrt().clamp_min(_SCALE_FLOOR), counts


def _fit(
    values: Tensor, tasks: Tensor, num_tasks: int, share: float
) -> tuple[float, tuple[Tensor, float, float, float, float]]:
    """From the worst ``share`` of every task as the faulty ones: each part begins at its median."""
    levels = task_quantiles(values, tasks, num_tasks, (1 + share) / 2)
    gaps = levels - task_quantiles(values, tasks, num_tasks, share / 2)
    drop = float(gaps[tasks].mean())
    spread = float((values - task_quantiles(values, tasks, num_tasks, 0.5)[tasks]).std())
    good_scale, faulty_scale = max(0.25 * spread, _SCALE_FLOOR), max(0.5 * spread, _SCALE_FLOOR)
    floor = _SCALE_FLOOR
    likelihood = -math.inf
    for _ in range(_NUM_ITERATIONS):
        good = log_normal(values, levels[tasks], good_scale) + math.log(1 - share)
        faulty = log_normal(values, levels[tasks] - drop, faulty_scale) + math.log(share)
        likelihood = float(torch.logaddexp(good, faulty).sum())
        is_good = torch.sigmoid(good - faulty)
        is_faulty = 1 - is_good
        good_precision, faulty_precision = is_good / good_scale**2, is_faulty / faulty_scale**2
        precision = torch.zeros_like(levels).index_add_(0, tasks, good_precision + faulty_precision)
        pulled = good_precision * values + faulty_precision * (values + drop)
        levels = torch.zeros_like(levels).index_add_(0, tasks, pulled) / precision.clamp_min(1e-12)
        below = levels[tasks] - values
        num_faulty = float(is_faulty.sum().clamp_min(1e-9))
        drop = max(float((is_faulty * below).sum()) / num_faulty, 0.0)
        good_scale = max(math.sqrt(float((is_good * below.square()).sum() / is_good.sum().clamp_min(1e-9))), floor)
        faulty_scale = max(math.sqrt(float((is_faulty * (below - drop).square()).sum()) / num_faulty), good_scale)
        share = min(max(num_faulty / len(values), _MIN_SHARE), 1 - _MIN_SHARE)
    return likelihood, (levels, drop, good_scale, faulty_scale, share)


def _single_log_likelihood(values: Tensor, tasks: Tensor) -> float:
    means, _, _ = task_moments(values, tasks)
    scale = max(float((values - means[tasks]).square().mean().sqrt()), _SCALE_FLOOR)
    return float(log_normal(values, means[tasks], scale).sum())


def log_normal(values: Tensor, means: Tensor, scale: float | Tensor) -> Tensor:
    log_scale = math.log(scale) if isinstance(scale, float) else scale.log()
    return -0.5 * ((values - means) / scale).square() - log_scale - 0.5 * math.log(2 * math.pi)


def task_quantiles(values: Tensor, tasks: Tensor, num_tasks: int, share: float) -> Tensor:  # (tasks,)
    """That quantile of every task, between its two neighbours in proportion; zero for a number that no episode has."""
    by_value = values.argsort(stable=True)
    ordered = values[by_value[tasks[by_value].argsort(stable=True)]]  # task by task, each from its lowest on
    counts = torch.bincount(tasks, minlength=num_tasks)
    firsts = counts.cumsum(0) - counts
    places = share * (counts - 1).clamp_min(0).to(values)
    below = (firsts + places.floor().long()).clamp(max=len(values) - 1)
    above = (firsts + places.ceil().long()).clamp(max=len(values) - 1)
    return torch.where(counts > 0, torch.lerp(ordered[below], ordered[above], places.frac()), 0.0)
