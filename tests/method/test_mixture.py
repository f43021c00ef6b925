from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from ptr_robot.method.episodes import channel_weights, keep_share
from ptr_robot.method.mixture import TwoPopulations, fit_two_populations


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


@settings(max_examples=60, deadline=None)
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
