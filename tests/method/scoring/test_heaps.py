"""Two heaps of values: found where there are two, not where there is one, however it is shaped."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ptr_robot.method.scoring.heaps import _poisson_at_most, upper_heap
from ptr_robot.method.scoring.null_distribution import HEAP_SCORE, NullDistribution
from ptr_robot.method.scoring.reference_set import standardise, with_heaps


def test_two_heaps_are_separated() -> None:
    generator = np.random.default_rng(0)
    values = np.concatenate([generator.normal(0.0, 1.0, 80), generator.normal(7.0, 1.0, 40), [np.nan]])
    found = upper_heap(values)
    assert found is not None
    assert not found[:80].any()
    assert found[80:120].all()
    assert not found[120]


@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential", "student", "steps"])
def test_one_heap_is_one(shape: str) -> None:
    found = 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        draws = {
            "normal": generator.standard_normal,
            "uniform": lambda size, g=generator: g.uniform(0, 1, size),
            "exponential": generator.standard_exponential,
            "steps": lambda size, g=generator: np.round(2.0 * g.standard_normal(size)) / 2.0,
            "student": lambda size, g=generator: g.standard_t(3, size),
        }
        found += upper_heap(draws[shape](120)) is not None
    assert found <= 2  # of a hundred


@pytest.mark.parametrize("values", [np.zeros(40), np.arange(5.0), np.full(20, np.nan)])
def test_too_little_to_tell(values: np.ndarray) -> None:
    assert upper_heap(values) is None


def test_a_heap_of_its_own_is_worth_a_look_and_no_more() -> None:
    """A third of each task lies apart, but not so far that the common spread does not cover it."""
    generator = np.random.default_rng(1)
    is_faulty = np.arange(240) % 3 == 0
    tasks = (np.arange(240) // 3 % 4)[:, None]
    values = 0.3 * generator.standard_normal((240, 1)) + tasks  # tasks differ in their centres
    values[is_faulty] += 1.8
    everything = np.ones(240, dtype=np.bool_)
    common = NullDistribution.of(values[:, 0], tasks[:, 0], 0.05, everything)
    assert np.median(common.standardise(values[:, 0], tasks[:, 0])[is_faulty]) < 2.0  # hidden
    scores = standardise(values, tasks, (with_heaps(common, values[:, 0], tasks[:, 0], 0.05),))[:, 0]
    assert np.median(scores[is_faulty]) == pytest.approx(HEAP_SCORE)
    assert np.quantile(scores[~is_faulty], 0.95) < 2.0


def test_a_group_that_many_channels_set_apart_counts_once() -> None:
    """Quick operators are short, rough and early; that is one thing, seen three times."""
    generator = np.random.default_rng(2)
    is_upper, tasks = np.arange(120) % 3 == 0, np.zeros((120, 3), dtype=np.int64)
    values = 0.3 * generator.standard_normal((120, 3))
    values[is_upper] += 2.4
    everything = np.ones(120, dtype=np.bool_)
    plain = tuple(NullDistribution.of(values[:, c], tasks[:, c], 0.05, everything) for c in range(3))
    nulls = tuple(with_heaps(null, values[:, c], tasks[:, c], 0.05) for c, null in enumerate(plain))
    assert all(null.lower_heap is not None for null in nulls)
    lifted = (standardise(values, tasks, nulls) > standardise(values, tasks, plain)).sum(axis=1)
    assert (lifted[is_upper] == 1).all()


@pytest.mark.parametrize("mean", [0.5, 4.0, 9.0])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_poisson_probabilities_add_up(count: int, mean: float) -> None:
    terms = [math.exp(-mean) * mean**number / math.factorial(number) for number in range(count + 1)]
    assert _poisson_at_most(count, mean) == pytest.approx(sum(terms))


def test_many_values_have_a_probability_too() -> None:
    assert _poisson_at_most(900, 900.0) == pytest.approx(0.51, abs=0.01)


@pytest.mark.parametrize("num", [1000, 10_000])
def test_a_shallow_dip_is_no_valley(num: int) -> None:
    """Half of the density is left: with many values that is no chance, and no second heap either."""
    generator = np.random.default_rng(3)
    values = generator.uniform(0, 1, num)
    in_dip = (np.abs(values - 0.5) < 0.1) & (generator.uniform(size=num) < 0.5)
    assert upper_heap(values[~in_dip]) is None
