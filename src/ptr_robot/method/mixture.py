"""Two populations in the scores of episodes, or one: a mixture fitted without labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_NUM_ITERATIONS = 60
_MIN_EPISODES = 8  # fewer say nothing about two populations
_MIN_SHARE = 0.02
_FEWEST_SPREAD = 4  # episodes of a task whose quartiles mean anything
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
        levels = self.levels[tasks]
        good = _log_normal(values, levels, self.good_scale) + math.log(1 - self.faulty_share)
        faulty = _log_normal(values, levels - self.drop, self.faulty_scale) + math.log(self.faulty_share)
        return torch.where(values >= levels, 1.0, torch.sigmoid(good - faulty))


def fit_two_populations(values: Tensor, tasks: Tensor) -> TwoPopulations | None:  # (E,), (E,) int64 from 0
    """Expectation maximisation from several starts; None where there are too few episodes or all are alike.

    The faulty ones may differ more among themselves than the good ones, and never less.
    """
    values = values.double()
    num_tasks = int(tasks.max()) + 1 if len(tasks) else 0
    medians = torch.stack([_median(values[tasks == task]) for task in range(num_tasks)]) if num_tasks else values
    if len(values) < _MIN_EPISODES or float((values - medians[tasks]).std()) < 1e-6:
        return None
    single = _single_log_likelihood(values, tasks, num_tasks)
    fits = [_fit(values, tasks, medians, share) for share in (0.15, 0.35, 0.6)]
    likelihood, best = max(fits, key=lambda fit: fit[0])
    # Three parameters more than one population has: the drop, the second scale and the share.
    evidence = likelihood - single - 1.5 * math.log(len(values))
    return TwoPopulations(*best, confidence=1 / (1 + math.exp(-max(-50.0, min(50.0, evidence)))))


def with_equal_spreads(values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) int64 from 0 -> (E,)
    """Values as if all tasks were spread alike: some are harder to predict, and their episodes differ more.

    The spread is that between quartiles; no task is stretched or shrunk more than fourfold, and one of a few episodes,
    whose spread says nothing, not at all.
    """
    groups = [values[tasks == task] for task in range(int(tasks.max()) + 1)]
    numbers = [number for number, group in enumerate(groups) if len(group) >= _FEWEST_SPREAD]
    factors = torch.ones(len(groups)).to(values)
    if numbers:
        quartiles = [groups[number].quantile(torch.tensor([0.25, 0.75]).to(values)) for number in numbers]
        spreads = torch.stack([upper - lower for lower, upper in quartiles]).clamp_min(1e-3)
        factors[numbers] = (spreads.log().mean().exp() / spreads).clamp(0.25, 4.0)
    return values * factors[tasks]


def _fit(
    values: Tensor, tasks: Tensor, medians: Tensor, share: float
) -> tuple[float, tuple[Tensor, float, float, float, float]]:
    spread = float((values - medians[tasks]).std())
    levels, drop = medians + share * spread, 2 * spread
    good_scale, faulty_scale = max(0.5 * spread, _SCALE_FLOOR), max(spread, _SCALE_FLOOR)
    floor = _SCALE_FLOOR
    likelihood = -math.inf
    for _ in range(_NUM_ITERATIONS):
        good = _log_normal(values, levels[tasks], good_scale) + math.log(1 - share)
        faulty = _log_normal(values, levels[tasks] - drop, faulty_scale) + math.log(share)
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


def _single_log_likelihood(values: Tensor, tasks: Tensor, num_tasks: int) -> float:
    counts = torch.zeros(num_tasks).double().index_add_(0, tasks, torch.ones_like(values))
    means = torch.zeros(num_tasks).double().index_add_(0, tasks, values) / counts.clamp_min(1)
    scale = max(float((values - means[tasks]).square().mean().sqrt()), _SCALE_FLOOR)
    return float(_log_normal(values, means[tasks], scale).sum())


def _log_normal(values: Tensor, means: Tensor, scale: float) -> Tensor:
    return -0.5 * ((values - means) / scale).square() - math.log(scale) - 0.5 * math.log(2 * math.pi)


def _median(values: Tensor) -> Tensor:
    return values.quantile(0.5) if len(values) else values.new_zeros(())
