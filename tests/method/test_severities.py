"""Good and faulty episodes told apart without labels: the mixture recomputed by known densities, and what it finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from ptr_robot.method.severities import Severities, task_evidence, tell_apart

DROPS = (1.0, 2.0, 4.0, 8.0)
MODEL = Severities(
    levels=torch.tensor([1.0, -2.0]).double(),
    scales=torch.tensor([0.4, 1.5]).double(),
    shares=torch.tensor([0.3, 0.6]).double(),
    tail=torch.tensor([0.1, 0.2, 0.3, 0.4]).double(),
)


def densities(value: float, task: int) -> tuple[float, float]:
    """Of the good ones and of the faulty ones, each times its share."""
    level, scale, share = (float(part[task]) for part in (MODEL.levels, MODEL.scales, MODEL.shares))
    faulty = sum(
        float(amount) * norm.pdf(value, level - drop, math.hypot(scale, drop / 2))
        for amount, drop in zip(MODEL.tail, DROPS, strict=True)
    )
    return (1 - share) * norm.pdf(value, level, scale), share * faulty


def drawn(
    num_faulty: tuple[int, ...], scales: tuple[float, ...], *, count: int = 40, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tasks of ``count`` episodes; faulty ones are worse by two to nine nats."""
    random = np.random.default_rng(seed)
    tasks = np.arange(count * len(scales)) % len(scales)
    is_faulty = np.arange(len(tasks)) // len(scales) < np.array(num_faulty)[tasks]
    good = 3.0 * tasks + random.normal(0, 1, len(tasks)) * np.array(scales)[tasks]
    return (
        torch.tensor(good - is_faulty * random.uniform(2, 9, len(tasks))),
        torch.tensor(tasks),
        torch.tensor(is_faulty),
    )


def posteriors(values: torch.Tensor, tasks: torch.Tensor) -> torch.Tensor:
    found, good = tell_apart(values, tasks), torch.ones(len(values)).double()
    if found is not None:
        good[found.rows] = found.severities.good_posteriors(values[found.rows].double(), found.tasks)
    return good


@given(st.floats(-12, 4), st.integers(0, 1))
def test_the_posterior_is_bayes_rule_below_the_good_level(value, task):
    values, tasks = torch.tensor([value]).double(), torch.tensor([task])
    good, faulty = densities(value, task)
    expected = 1.0 if value >= float(MODEL.levels[task]) else good / (good + faulty)
    assert math.isclose(MODEL.good_posteriors(values, tasks).item(), expected, rel_tol=1e-6, abs_tol=1e-9)
    assert math.isclose(
        MODEL.log_likelihoods(values, tasks).item(), math.log(good + faulty), rel_tol=1e-6, abs_tol=1e-6
    )


def test_the_evidence_of_a_task_is_bic_of_the_mixture_against_one_normal():
    values, tasks, _ = drawn((8, 8), (0.4, 0.4), count=15)
    for task, got in enumerate(task_evidence(MODEL, values, tasks).tolist()):
        own = values[tasks == task].numpy()
        two = sum(math.log(sum(densities(value, task))) for value in own)
        one = norm.logpdf(own, own.mean(), own.std()).sum()
        assert math.isclose(got, two - one - 0.5 * math.log(len(own)), rel_tol=1e-9)


def test_shares_and_levels_are_found_whatever_the_severities():
    values, tasks, is_faulty = drawn((24, 16, 20), (0.4, 0.4, 0.4))
    found = tell_apart(values, tasks)
    assert found.rows.all()
    torch.testing.assert_close(found.severities.levels, torch.tensor([0.0, 3.0, 6.0]).double(), atol=0.3, rtol=0)
    torch.testing.assert_close(found.severities.shares, torch.tensor([0.6, 0.4, 0.5]).double(), atol=0.1, rtol=0)
    assert ((posteriors(values, tasks) < 0.5) == is_faulty).float().mean() > 0.96


def test_tasks_whose_good_ones_differ_more_have_a_scale_of_their_own():
    values, tasks, is_faulty = drawn((20, 20, 20), (0.3, 0.3, 0.9))
    found = tell_apart(values, tasks)
    assert found.severities.scales[2] > 1.5 * found.severities.scales[:2].max()
    good = posteriors(values, tasks)
    narrow = tasks < 2
    assert ((good < 0.5) == is_faulty)[narrow].float().mean() > 0.96
    assert (good[~narrow & ~is_faulty] > 0.2).float().mean() > 0.8


@pytest.mark.parametrize("num_faulty", [(24, 24, 0), (24, 24, 4), (24, 16, 6)])
def test_tasks_of_different_shares_of_faulty_episodes_are_all_told_apart(num_faulty):
    values, tasks, is_faulty = drawn(num_faulty, (0.4, 0.4, 0.4))
    good = posteriors(values, tasks)
    assert ((good < 0.5) == is_faulty).float().mean() > 0.96
    assert (good[~is_faulty] > 0.2).float().mean() > 0.95


def test_a_task_in_which_nothing_is_told_apart_is_let_go_and_blurs_no_other():
    """Two tasks of two kinds each, and one whose scores are one wide heap."""
    values, tasks, is_faulty = drawn((20, 20, 0), (0.4, 0.4, 2.0), seed=3)
    found = tell_apart(values, tasks)
    assert found.rows.tolist() == (tasks < 2).tolist()
    assert ((posteriors(values, tasks) < 0.5) == is_faulty).float().mean() > 0.98
    alone = tell_apart(values[tasks < 2], tasks[tasks < 2])
    torch.testing.assert_close(found.severities.levels, alone.severities.levels)


def test_where_every_task_is_one_heap_nothing_is_told_apart():
    for seed in range(8):
        values = torch.tensor(np.random.default_rng(seed).normal(0, 2.0, 120))
        assert tell_apart(values, torch.arange(120) % 3) is None


def test_few_or_equal_episodes_say_nothing():
    one = torch.zeros(50, dtype=torch.int64)
    assert tell_apart(torch.randn(5), one[:5]) is None
    assert tell_apart(torch.ones(50), one) is None
    assert tell_apart(torch.zeros(0), one[:0]) is None


def test_differences_far_below_a_nat_are_no_evidence():
    random = torch.Generator().manual_seed(0)
    values = 0.01 * torch.randn(80, generator=random) - 0.1 * (torch.arange(80) % 2)
    assert tell_apart(values, torch.zeros(80, dtype=torch.int64)) is None


def test_the_names_of_tasks_do_not_matter():
    values, tasks, _ = drawn((20, 12), (0.4, 0.8))
    torch.testing.assert_close(posteriors(values, tasks), posteriors(values, 7 - 4 * tasks))
