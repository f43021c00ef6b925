from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from ptr_robot.method.episode_evidence import channel_weights, keep_share
from ptr_robot.method.mixture import (
    TwoPopulations,
    fit_two_populations,
    separate_tasks,
    task_evidence,
    with_equal_spreads,
)


def drawn(share: float, drop: float, *, count: int = 300, num_tasks: int = 3, seed: int = 0, spread: float = 0.5):
    random = np.random.default_rng(seed)
    tasks = np.arange(count) % num_tasks
    is_faulty = random.random(count) < share
    values = 3.0 * tasks + random.normal(0, spread, count) - is_faulty * random.normal(drop, 2 * spread, count)
    return torch.tensor(values), torch.tensor(tasks), torch.tensor(is_faulty)


def test_two_populations_are_found_with_their_share_and_levels():
    values, tasks, is_faulty = drawn(0.4, 5.0)
    found = fit_two_populations(values, tasks)
    assert found.confidence > 0.999
    assert abs(found.faulty_share - is_faulty.double().mean()) < 0.05
    torch.testing.assert_close(found.levels, torch.tensor([0.0, 3.0, 6.0]).double(), atol=0.3, rtol=0)
    posterior = found.good_posterior(values, tasks)
    assert ((posterior > 0.5) == ~is_faulty).double().mean() > 0.97


def test_one_population_is_left_alone():
    for seed in range(5):
        values, tasks, _ = drawn(0.0, 5.0, seed=seed)
        assert channel_weights(values, tasks).mean() > 0.95


def test_differences_far_below_a_nat_are_no_evidence():
    values, tasks, _ = drawn(0.5, 0.1, spread=0.01)
    assert channel_weights(values, tasks).min() > 0.9


def test_few_or_equal_episodes_say_nothing():
    assert fit_two_populations(torch.randn(5), torch.zeros(5, dtype=torch.int64)) is None
    assert fit_two_populations(torch.ones(50), torch.zeros(50, dtype=torch.int64)) is None
    assert fit_two_populations(torch.zeros(0), torch.zeros(0, dtype=torch.int64)) is None


@given(st.floats(-8, 2), st.floats(0.1, 3), st.floats(0.2, 2), st.floats(0.05, 0.95))
def test_the_posterior_is_bayes_rule_below_the_good_level(value, drop, scale, share):
    model = TwoPopulations(torch.tensor([1.0]).double(), drop, scale, 2 * scale, share, confidence=1.0)
    got = model.good_posterior(torch.tensor([value]).double(), torch.tensor([0])).item()
    good = (1 - share) * norm.pdf(value, 1.0, scale)
    faulty = share * norm.pdf(value, 1.0 - drop, 2 * scale)
    expected = 1.0 if value >= 1.0 else good / (good + faulty)
    assert math.isclose(got, expected, rel_tol=1e-6, abs_tol=1e-9)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=1, max_size=40), st.floats(0.01, 1))
def test_no_episode_grows_beyond_the_inverse_of_the_kept_share(rows, share):
    """q/p = w / mean(w) <= 1 / share within every task, hence KL(q‖p) <= log(1 / share)."""
    tasks = torch.tensor([task for task, _ in rows])
    weights = keep_share(torch.tensor([weight for _, weight in rows]), tasks, share)
    assert (weights >= 0).all()
    assert (weights <= 1 + 1e-6).all()
    for task in tasks.unique():
        own = weights[tasks == task].double()
        ratio = own / own.mean()
        assert ratio.max() <= 1 / share + 1e-4
        kl = sum(float(r) / len(own) * math.log(float(r)) for r in ratio if r > 0)
        assert kl <= math.log(1 / share) + 1e-4


def test_keeping_enough_changes_nothing():
    weights, tasks = torch.tensor([0.0, 1.0, 1.0, 1.0]), torch.zeros(4, dtype=torch.int64)
    assert torch.equal(keep_share(weights, tasks, 0.25), weights)


def test_spreads_become_equal_within_a_factor_of_four():
    random = torch.Generator().manual_seed(0)
    tasks = torch.arange(3).repeat_interleave(40)
    scales = torch.tensor([0.5, 1.0, 2.0])
    values = 3.0 + torch.randn(120, generator=random) * scales[tasks]
    equal = with_equal_spreads(values, tasks)
    spreads = [float(equal[tasks == task].quantile(0.75) - equal[tasks == task].quantile(0.25)) for task in range(3)]
    assert max(spreads) / min(spreads) < 1.001
    ratio = equal / values
    for task in range(3):
        assert ratio[tasks == task].std() < 1e-5  # one factor a task: the order within it stays
    alike = torch.where(tasks == 0, 3.0, values)  # a task without any spread
    assert (with_equal_spreads(alike, tasks) / alike).max() <= 4.0001


def test_tasks_of_a_few_episodes_have_no_say_in_spreads():
    values, tasks, _ = drawn(0.4, 3.0)
    expected = with_equal_spreads(values, tasks)
    few = torch.arange(3, 9)
    joined = with_equal_spreads(torch.cat([values, few.to(values)]), torch.cat([tasks, few]))
    torch.testing.assert_close(joined, torch.cat([expected, few.to(values)]))


def test_a_task_that_is_spread_wider_hides_no_population():
    """Half of each task 6 deviations down: one scale for all tasks would call the wide task's good ones faulty."""
    random = torch.Generator().manual_seed(1)
    tasks = torch.arange(2).repeat_interleave(60)
    is_faulty = torch.arange(120) % 2 == 0
    scales = torch.tensor([0.3, 2.0])[tasks]
    values = scales * (torch.randn(120, generator=random) - 6.0 * is_faulty)
    equal = with_equal_spreads(values, tasks)
    populations = fit_two_populations(equal, tasks)
    assert populations.confidence > 0.99
    posterior = populations.good_posterior(equal.double(), tasks)
    assert ((posterior < 0.5) == is_faulty).float().mean() > 0.97


def posterior_of(group) -> torch.Tensor:
    return group.populations.good_posterior(group.values.double(), group.tasks)


def test_a_task_without_two_populations_is_excluded_from_the_fit_of_the_others():
    """Two tasks of two populations each, and one whose scores are one wide heap."""
    random = np.random.default_rng(3)
    tasks = torch.arange(120) % 3
    is_faulty = torch.tensor(random.random(120) < 0.5) & (tasks < 2)
    values = torch.tensor(random.normal(0, 0.4, 120)) - 4.0 * is_faulty
    values[tasks == 2] = torch.tensor(random.normal(0, 2.0, 40))
    (group,) = separate_tasks(values, tasks)
    assert group.rows.tolist() == (tasks < 2).tolist()
    assert ((posterior_of(group) < 0.5) == is_faulty[group.rows]).all()
    (alone,) = separate_tasks(values[tasks < 2], tasks[tasks < 2])
    torch.testing.assert_close(group.values, alone.values)
    assert group.populations.drop == alone.populations.drop


@pytest.mark.parametrize("num_faulty", [[24, 24, 0], [24, 24, 4], [24, 16, 6]])
def test_tasks_of_different_shares_of_faulty_episodes_are_all_separated(num_faulty):
    """Quartiles are near the drop where many are faulty, and near the good ones' spread where few are."""
    tasks = torch.arange(120) % 3
    is_faulty = torch.arange(120) // 3 < torch.tensor(num_faulty)[tasks]
    values = torch.tensor(np.random.default_rng(0).normal(0, 0.5, 120)) - 4.0 * is_faulty
    found = torch.zeros(120, dtype=torch.bool)
    for group in separate_tasks(values, tasks):
        found[group.rows] |= posterior_of(group) < 0.5
    assert torch.equal(found, is_faulty)


def test_tasks_that_share_two_populations_are_fitted_together():
    values, tasks, _ = drawn(0.4, 6.0)
    (group,), equal = separate_tasks(values, tasks), with_equal_spreads(values, tasks)
    assert group.rows.all()
    torch.testing.assert_close(group.values, equal)
    torch.testing.assert_close(group.populations.levels, fit_two_populations(equal, tasks).levels)


def test_where_every_task_is_one_population_nothing_is_separated():
    for seed in range(5):
        values = torch.tensor(np.random.default_rng(seed).normal(0, 2.0, 120))
        assert separate_tasks(values, torch.arange(120) % 3) == []
    assert separate_tasks(torch.zeros(0), torch.zeros(0, dtype=torch.int64)) == []


def test_the_evidence_of_a_task_is_bic_of_two_normals_against_one():
    values, tasks, _ = drawn(0.4, 5.0, count=30, num_tasks=2)
    model = TwoPopulations(torch.tensor([0.0, 3.0]).double(), 4.0, 0.5, 1.0, 0.3, confidence=1.0)
    for task, got in enumerate(task_evidence(model, values, tasks).tolist()):
        own = values[tasks == task].numpy()
        level = float(model.levels[task])
        two = np.log(0.7 * norm.pdf(own, level, 0.5) + 0.3 * norm.pdf(own, level - 4.0, 1.0)).sum()
        one = norm.logpdf(own, own.mean(), own.std()).sum()
        assert math.isclose(got, two - one - 0.5 * math.log(len(own)), rel_tol=1e-9)
