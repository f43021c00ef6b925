"""The distribution of good episodes: its tail against SciPy, its moments under contamination."""

from __future__ import annotations

import numpy as np
import pytest

from ptr_robot.method.scoring.null_distribution import NullDistribution, dense_moments, tail_probability
from ptr_robot.method.scoring.reference_set import calibrate


@pytest.mark.parametrize("degrees", [2, 4, 6, 8])
def test_the_tail_is_students(degrees: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    scores = np.array([-5.0, -1.0, 0.0, 0.3, 2.0, 7.0, 30.0])
    np.testing.assert_allclose(tail_probability(scores, degrees), stats.t.sf(scores, degrees), rtol=1e-6)


def test_an_unknown_score_is_neither_good_nor_bad() -> None:
    assert tail_probability(np.array([np.nan]), 4) == pytest.approx([0.5])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_moments_are_those_of_the_good_ones_however_many_are_faulty(share: float) -> None:
    generator = np.random.default_rng(0)
    values = generator.standard_normal(400)
    num_faulty = int(share * 400)
    values[:num_faulty] += generator.uniform(6, 20, num_faulty)
    centre, scale = dense_moments(values)
    assert abs(centre) < 0.5
    assert 0.6 < scale < 1.5


def test_a_task_of_few_episodes_is_compared_with_all() -> None:
    values = np.concatenate([np.random.default_rng(1).normal(5.0, 1.0, 30), [5.0, 50.0]])
    tasks = np.array([0] * 30 + [1, 1])
    scores = NullDistribution.of(values, tasks, 0.05).standardise(values, tasks)
    assert abs(scores[30]) < 2
    assert scores[31] > 10


def test_a_channel_without_values_says_nothing() -> None:
    values = np.full(5, np.nan)
    null = NullDistribution.of(values, np.zeros(5, dtype=np.int64), 0.05)
    assert np.isnan(null.standardise(np.ones(5), np.zeros(5, dtype=np.int64))).all()


def test_the_reference_set_holds_the_good_ones() -> None:
    """Half of the episodes are faulty, each in another channel; none of them shapes what is usual."""
    generator = np.random.default_rng(2)
    values = generator.standard_normal((60, 5))
    faulty = np.arange(60) < 30
    values[np.flatnonzero(faulty), generator.integers(0, 5, 30)] += 12.0
    _, scores, reference = calibrate(values, np.zeros((60, 5), dtype=np.int64), (0.05,) * 5, (False,) * 5)
    assert reference[~faulty].mean() > 0.8
    assert not reference[faulty].any()
    assert 0.6 < scores[~faulty].std() < 1.5


def test_good_episodes_that_differ_are_all_in_the_reference_set() -> None:
    """A skewed distribution of good ones is one population."""
    values = np.random.default_rng(3).exponential(1.0, (80, 4))
    _, _, reference = calibrate(values, np.zeros((80, 4), dtype=np.int64), (0.05,) * 4, (False,) * 4)
    assert reference.mean() > 0.75


def test_a_wider_spread_counts_half() -> None:
    """The geometric mean of two scales where the other is wider, and its own where it is not; centres stay."""
    own = NullDistribution({0: 1.0, 1: 5.0}, {0: 0.5, 1: 2.0}, (1.0, 0.5))
    other = NullDistribution({0: 9.0}, {0: 2.0, 1: 1.0}, (7.0, 4.5))
    widened = own.widened(other)
    assert widened.scales == pytest.approx({0: 1.0, 1: 2.0})
    assert widened.centres == own.centres
    assert widened.usual == pytest.approx((1.0, 1.5))
    unknown = NullDistribution({}, {}, None)
    assert own.widened(unknown) is own
    assert unknown.widened(own) is unknown
