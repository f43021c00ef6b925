"""Good and faulty episodes in the scores of several tasks: a mixture fitted without labels.

Good episodes of a task lie close together, some tasks' closer than others'. Faulty ones lie below by anything from a
nat to many: some faults are worse than others, and there is no usual one. So the good ones are one narrow heap at the
top of each task, and the faulty ones a tail below it whose shape all tasks share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ptr_robot.method.mixture import log_normal, task_moments, task_quantiles

_DROPS = (1.0, 2.0, 4.0, 8.0)  # nats: how far below the good ones' mean a part of the tail lies, half as wide as that
_NUM_ITERATIONS = 80
_FIRST_SHARES = (0.15, 0.35, 0.6, 0.8)  # of faulty episodes, where fits begin
_MIN_EPISODES = 8  # fewer say nothing about two kinds
_MIN_SHARE = 0.02
_SCALE_FLOOR = 0.25  # nats: smaller differences are no evidence, however alike the episodes are
_SCALE_PRIOR = 2.0  # episodes: how much the usual scale of the tasks counts in each
_SHARE_PRIOR = 8.0  # episodes: how much the share of all tasks counts in each


@dataclass(frozen=True)
class Severities:
    """A heap of good episodes in each task, and the tail of faulty ones below it."""

    levels: Tensor  # (tasks,) the good ones' mean
    scales: Tensor  # (tasks,) the good ones' deviation
    shares: Tensor  # (tasks,) of faulty episodes
    tail: Tensor  # (drops,) how much of the tail lies at each drop

    def good_posteriors(self, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,)
        """P(good | value); a value above the good ones' mean is taken for good whatever the tails say."""
        parts = self.log_parts(values, tasks)
        return torch.where(values >= self.levels[tasks], 1.0, parts.softmax(dim=1)[:, 0])

    def log_likelihoods(self, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,)
        """Of each value, whichever part it is of."""
        return self.log_parts(values, tasks).logsumexp(dim=1)

    def log_parts(self, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E, 1 + drops)
        """Of the good ones, and of every part of the tail."""
        drops = torch.tensor(_DROPS).to(values)
        levels, scales, shares = self.levels[tasks], self.scales[tasks], self.shares[tasks]
        good = log_normal(values, levels, scales) + (1 - shares).log()
        centres = levels.unsqueeze(1) - drops
        faulty = log_normal(values.unsqueeze(1), centres, tail_scales(scales, drops))
        return torch.cat([good.unsqueeze(1), faulty + shares.log().unsqueeze(1) + self.tail.log()], dim=1)


def tail_scales(scales: Tensor, drops: Tensor) -> Tensor:  # (E,), (drops,) -> (E, drops)
    """A faulty episode varies as good ones do, and by half of how bad it is."""
    return (scales.unsqueeze(1).square() + (drops / 2).square()).sqrt()


@dataclass(frozen=True)
class ToldApart:
    """The episodes of the tasks that speak for two kinds, and what tells them apart."""

    rows: Tensor  # (E,) bool: the episodes of these tasks
    tasks: Tensor  # (n,) int64 from 0, as ``severities`` counts them
    severities: Severities


def tell_apart(values: Tensor, tasks: Tensor) -> ToldApart | None:  # (E,), (E,) int64
    """Good and faulty episodes of the tasks whose own episodes speak for both; None where no task's do.

    The mixture is fitted to all tasks; those that one heap of their own explains better are let go, and it is fitted
    again to the others.
    """
    is_open = torch.ones(int(tasks.max()) + 1 if len(tasks) else 0, dtype=torch.bool)
    while is_open.any():
        rows = is_open[tasks]
        present, numbers = torch.unique(tasks[rows], return_inverse=True)
        found = _fit_best(values[rows].double(), numbers)
        if found is None:
            return None
        evidence = task_evidence(found, values[rows].double(), numbers)
        num_against = int((evidence <= 0).sum())
        if not num_against:
            # Parameters that all tasks share: what the tail is made of, and how much of it there is.
            is_sure = float(evidence.sum()) > 0.5 * len(_DROPS) * math.log(int(rows.sum()))
            return ToldApart(rows, numbers, found) if is_sure else None
        is_open[:] = False
        is_open[present[evidence.argsort()[(num_against + 1) // 2 :]]] = True  # without the worst, others may stay
    return None


def task_evidence(found: Severities, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (tasks,)
    """For two kinds against one heap with a mean and a scale of the task's own, in nats.

    Against it stands what BIC asks for a parameter, the task's share: two must explain it better by more than that.
    """
    means, scales, counts = task_moments(values, tasks)
    gains = found.log_likelihoods(values, tasks) - log_normal(values, means[tasks], scales[tasks])
    return torch.zeros_like(means).index_add_(0, tasks, gains) - 0.5 * counts.log()


def _fit_best(values: Tensor, tasks: Tensor) -> Severities | None:  # (E,), (E,) int64 from 0
    if len(values) < _MIN_EPISODES or not values.std() > 0:
        return None
    num_tasks = int(tasks.max()) + 1
    fits = [_fit(values, tasks, num_tasks, share) for share in _FIRST_SHARES]
    return max(fits, key=lambda fit: float(fit.log_likelihoods(values, tasks).sum()))


def _fit(values: Tensor, tasks: Tensor, num_tasks: int, share: float) -> Severities:
    """Expectation and maximisation, from the worst ``share`` of every task as the faulty ones."""
    levels = task_quantiles(values, tasks, num_tasks, (1 + share) / 2)  # the better part's median
    scales = task_quantiles(values, tasks, num_tasks, 1 - 0.16 * (1 - share)) - levels  # and one deviation above it
    found = Severities(
        levels,
        scales.clamp_min(_SCALE_FLOOR),
        torch.full_like(levels, share),
        torch.full((len(_DROPS),), 1 / len(_DROPS)).to(values),
    )
    for _ in range(_NUM_ITERATIONS):
        found = _improved(found, values, tasks)
    return found


def _improved(found: Severities, values: Tensor, tasks: Tensor) -> Severities:
    """One step of expectation and maximisation."""

    def by_task(amounts: Tensor) -> Tensor:  # (E,) -> (tasks,)
        return torch.zeros_like(found.levels).index_add_(0, tasks, amounts)

    drops = torch.tensor(_DROPS).to(values)
    parts = found.log_parts(values, tasks).softmax(dim=1)
    is_good, is_faulty = parts[:, 0], parts[:, 1:]
    tail = (is_faulty.sum(dim=0) + 1) / (is_faulty.sum() + len(_DROPS))

    share = is_faulty.sum() / len(values)
    counts = by_task(torch.ones_like(values))
    shares = (by_task(is_faulty.sum(dim=1)) + _SHARE_PRIOR * share) / (counts + _SHARE_PRIOR)

    scales = found.scales[tasks]
    good_precisions = is_good / scales.square()
    faulty_precisions = is_faulty / tail_scales(scales, drops).square()
    pulled = good_precisions * values + (faulty_precisions * (values.unsqueeze(1) + drops)).sum(dim=1)
    levels = by_task(pulled) / by_task(good_precisions + faulty_precisions.sum(dim=1)).clamp_min(1e-12)

    squares, amounts = by_task(is_good * (values - levels[tasks]).square()), by_task(is_good)
    usual = ((squares + 0.01) / (amounts + 0.01)).clamp_min(_SCALE_FLOOR**2).log()[counts > 0].mean().exp()
    variances = (squares + _SCALE_PRIOR * usual) / (amounts + _SCALE_PRIOR)
    return Severities(levels, variances.sqrt().clamp_min(_SCALE_FLOOR), shares.clamp(_MIN_SHARE, 1 - _MIN_SHARE), tail)
