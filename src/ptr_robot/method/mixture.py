"""Two populations in the scores of episodes, or one: a mixture fitted without labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# Raised where equal scores come to lead to other weights: what was recorded of another version is run again.
POPULATIONS_VERSION = 2

_NUM_ITERATIONS = 60
_MIN_EPISODES = 8  # with fewer, two populations are not distinguished from one
_MIN_SHARE = 0.02
_MIN_CONFIDENCE = 0.5  # below it, one population is assumed
_FIRST_SHARES = (0.15, 0.35, 0.6, 0.8)  # of faulty episodes, where fits begin
_MIN_EPISODES_FOR_SPREAD = 4  # episodes of a task from which its quartiles are estimated
_SCALE_FLOOR = 0.25  # nats: smaller differences are no evidence, however small the spread


@dataclass(frozen=True)
class TwoPopulations:
    """Good episodes around their task's level, faulty ones below it by a drop that all tasks share."""

    levels: Tensor  # (tasks,) the good ones' mean
    drop: float  # how far the faulty ones' mean is below, in nats
    good_scale: float
    faulty_scale: float
    faulty_share: float
    confidence: float  # 0 to 1: probability of two populations rather than one, by BIC

    def log_likelihoods(self, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,)
        """Of each value, whichever population it is of."""
        return torch.logaddexp(*self._log_parts(values, tasks))

    def good_posterior(self, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,)
        """P(good | value); a value above the good ones' mean is taken for good whatever the tails say."""
        good, faulty = self._log_parts(values, tasks)
        return torch.where(values >= self.levels[tasks], 1.0, torch.sigmoid(good - faulty))

    def _log_parts(self, values: Tensor, tasks: Tensor) -> tuple[Tensor, Tensor]:
        levels = self.levels[tasks]
        good = _log_normal(values, levels, self.good_scale) + math.log(1 - self.faulty_share)
        faulty = _log_normal(values, levels - self.drop, self.faulty_scale) + math.log(self.faulty_share)
        return good, faulty


@dataclass(frozen=True)
class TaskGroup:
    """Tasks whose episodes are separated by the same two populations."""

    rows: Tensor  # (E,) bool: the episodes of these tasks
    values: Tensor  # (n,) of these rows, brought to one spread
    tasks: Tensor  # (n,) int64 from 0, as ``populations`` counts them
    populations: TwoPopulations


def fit_two_populations(values: Tensor, tasks: Tensor) -> TwoPopulations | None:  # (E,), (E,) int64 from 0
    """Expectation maximisation from several starts; None where there are too few episodes or all are alike.

    The faulty ones may differ more among themselves than the good ones, and never less.
    """
    values = values.double()
    num_tasks = int(tasks.max()) + 1 if len(tasks) else 0
    if (
        len(values) < _MIN_EPISODES
        or float((values - _task_quantiles(values, tasks, num_tasks, 0.5)[tasks]).std()) < 1e-6
    ):
        return None
    single = _single_log_likelihood(values, tasks)
    fits = [_fit(values, tasks, num_tasks, share) for share in _FIRST_SHARES]
    likelihood, best = max(fits, key=lambda fit: fit[0])
    # Three parameters more than one population has: the drop, the second scale and the share.
    evidence = likelihood - single - 1.5 * math.log(len(values))
    return TwoPopulations(*best, confidence=1 / (1 + math.exp(-max(-50.0, min(50.0, evidence)))))


def separate_tasks(values: Tensor, tasks: Tensor) -> list[TaskGroup]:  # (E,), (E,) int64 from 0
    """The tasks whose own episodes are evidence for two populations: those that share them, and any that has its own.

    Two populations are fitted to all tasks; those that one population of their own explains better are excluded from
    the fit, and the others fitted again. An excluded task may still be separated by a fit of its own. In a task of
    neither group even the lowest scores are no evidence of a fault.
    """
    is_shared = torch.ones(int(tasks.max()) + 1 if len(tasks) else 0, dtype=torch.bool, device=tasks.device)
    groups = []
    while is_shared.any():
        group = _fit_group(values, tasks, is_shared[tasks])
        if group is None:
            break
        evidence = task_evidence(group.populations, group.values, group.tasks)
        num_against = int((evidence < 0).sum())
        if not num_against:
            groups.append(group)
            break
        present = torch.unique(tasks[group.rows])
        is_shared[present[evidence.argsort()[: (num_against + 1) // 2]]] = False  # without the worst, others may stay
    excluded = (~is_shared).nonzero().flatten().tolist()
    alone = [_fit_group(values, tasks, tasks == task) for task in excluded if (tasks == task).any()]
    return [
        group for group in [*groups, *alone] if group is not None and group.populations.confidence > _MIN_CONFIDENCE
    ]


def _fit_group(values: Tensor, tasks: Tensor, rows: Tensor) -> TaskGroup | None:  # (E,) each
    numbers = torch.unique(tasks[rows], return_inverse=True)[1]
    equal = with_equal_spreads(values[rows], numbers)
    populations = fit_two_populations(equal, numbers)
    return None if populations is None else TaskGroup(rows, equal, numbers, populations)


def task_evidence(populations: TwoPopulations, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (tasks,)
    """For the two populations against one with a mean and a scale of the task's own, in nats.

    Against it stands what BIC asks for a parameter: two must explain the task better by more than that.
    """
    values = values.double()
    means, scales, counts = task_moments(values, tasks)
    single = _log_normal(values, means[tasks], scales[tasks])
    difference = populations.log_likelihoods(values, tasks) - single
    return torch.zeros_like(means).index_add_(0, tasks, difference) - 0.5 * counts.log()


def task_moments(values: Tensor, tasks: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (E,), (E,) -> (tasks,) each
    """Mean, deviation (at least what counts as a difference) and number of the episodes of each task."""
    num_tasks = int(tasks.max()) + 1
    counts = torch.zeros(num_tasks).to(values).index_add_(0, tasks, torch.ones_like(values)).clamp_min(1)
    means = torch.zeros_like(counts).index_add_(0, tasks, values) / counts
    variances = torch.zeros_like(counts).index_add_(0, tasks, (values - means[tasks]).square()) / counts
    return means, variances.sqrt().clamp_min(_SCALE_FLOOR), counts


def with_equal_spreads(values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) int64 from 0 -> (E,)
    """Values as if all tasks were spread alike: some are harder to predict, and their episodes differ more.

    The spread is that between quartiles; no task is stretched or shrunk more than fourfold, and one of a few episodes,
    whose spread says nothing, not at all.
    """
    num_tasks = int(tasks.max()) + 1
    lower, upper = (_task_quantiles(values, tasks, num_tasks, share) for share in (0.25, 0.75))
    is_many = torch.bincount(tasks, minlength=num_tasks) >= _MIN_EPISODES_FOR_SPREAD
    spreads = (upper - lower)[is_many].clamp_min(1e-3)
    factors = torch.ones_like(lower)
    factors[is_many] = (spreads.log().mean().exp() / spreads).clamp(0.25, 4.0)
    return values * factors[tasks]


def _fit(
    values: Tensor, tasks: Tensor, num_tasks: int, share: float
) -> tuple[float, tuple[Tensor, float, float, float, float]]:
    """From the worst ``share`` of every task as the faulty ones: each part begins at its median."""
    levels = _task_quantiles(values, tasks, num_tasks, (1 + share) / 2)
    gaps = levels - _task_quantiles(values, tasks, num_tasks, share / 2)
    drop = float(gaps[tasks].mean())
    spread = float((values - _task_quantiles(values, tasks, num_tasks, 0.5)[tasks]).std())
    good_scale, faulty_scale = max(0.25 * spread, _SCALE_FLOOR), max(0.5 * spread, _SCALE_FLOOR)
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


def _single_log_likelihood(values: Tensor, tasks: Tensor) -> float:
    means, _, _ = task_moments(values, tasks)
    scale = max(float((values - means[tasks]).square().mean().sqrt()), _SCALE_FLOOR)
    return float(_log_normal(values, means[tasks], scale).sum())


def _log_normal(values: Tensor, means: Tensor, scale: float | Tensor) -> Tensor:
    log_scale = math.log(scale) if isinstance(scale, float) else scale.log()
    return -0.5 * ((values - means) / scale).square() - log_scale - 0.5 * math.log(2 * math.pi)


def _task_quantiles(values: Tensor, tasks: Tensor, num_tasks: int, share: float) -> Tensor:  # (tasks,)
    """That quantile of every task, between its two neighbours in proportion; zero for a number that no episode has."""
    by_value = values.argsort(stable=True)
    ordered = values[by_value[tasks[by_value].argsort(stable=True)]]  # task by task, each from its lowest on
    counts = torch.bincount(tasks, minlength=num_tasks)
    firsts = counts.cumsum(0) - counts
    places = share * (counts - 1).clamp_min(0).to(values)
    below = (firsts + places.floor().long()).clamp(max=len(values) - 1)
    above = (firsts + places.ceil().long()).clamp(max=len(values) - 1)
    return torch.where(counts > 0, torch.lerp(ordered[below], ordered[above], places.frac()), 0.0)
