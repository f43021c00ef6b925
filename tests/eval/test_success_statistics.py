"""Intervals against scipy's and against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.errors import ConfigError
from ptr_robot.eval.success_statistics import paired_bootstrap_interval, paired_t_interval, wilson_interval


@given(st.integers(1, 300), st.floats(0.0, 1.0), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_interval_is_scipys(num_trials, share, confidence):
    num_successes = round(share * num_trials)
    expected = scipy.stats.binomtest(num_successes, num_trials).proportion_ci(confidence, method="wilson")
    interval = wilson_interval(num_successes, num_trials, confidence)
    assert interval.low == pytest.approx(expected.low, abs=1e-12)
    assert interval.high == pytest.approx(expected.high, abs=1e-12)
    assert interval.estimate == num_successes / num_trials


def test_wilson_limits_solve_their_quadratic():
    interval = wilson_interval(7, 20)
    z = scipy.stats.norm.ppf(0.975)
    for limit in (interval.low, interval.high):
        assert abs(7 / 20 - limit) == pytest.approx(z * math.sqrt(limit * (1 - limit) / 20))


def test_paired_t_interval_is_scipys():
    generator = np.random.default_rng(0)
    first, second = generator.normal(size=(2, 5))
    expected = scipy.stats.ttest_rel(first, second).confidence_interval(0.9)
    interval = paired_t_interval(first.tolist(), second.tolist(), 0.9)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_paired_bootstrap_agrees_with_scipys():
    generator = np.random.default_rng(1)
    first, second = generator.integers(0, 2, size=(2, 200)).tolist()
    expected = scipy.stats.bootstrap(
        (np.subtract(first, second),), np.mean, n_resamples=10_000, method="percentile", random_state=7
    ).confidence_interval
    interval = paired_bootstrap_interval(first, second)
    assert interval.low == pytest.approx(expected.low, abs=0.015)
    assert interval.high == pytest.approx(expected.high, abs=0.015)
    assert interval == paired_bootstrap_interval(first, second)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: wilson_interval(3, 2), "3 successes of 2 trials"),
        (lambda: wilson_interval(0, 0), "0 successes of 0 trials"),
        (lambda: wilson_interval(1, 2, 95), "confidence=95"),
        (lambda: paired_t_interval([1.0, 2.0], [1.0]), "got 2 and 1"),
        (lambda: paired_bootstrap_interval([1.0], [1.0]), "got 1 and 1"),
    ],
)
def test_nonsense_is_refused(call, words):
    with pytest.raises(ConfigError, match=words):
        call()
