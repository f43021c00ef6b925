"""Two heaps of values: found where there are two, not where there is one, however it is shaped."""

from __future__ import annotations

import numpy as np
import pytest

from ptr_robot.method.scoring.heaps import upper_heap
from ptr_robot.method.scoring.null_distribution import HEAP_SCORE, NullDistribution
from ptr_robot.method.scoring.reference_set import with_heaps


def test_two_heaps_are_separated() -> None:
    generator = np.random.default_rng(0)
    values = np.concatenate([generator.normal(0.0, 1.0, 80), generator.normal(7.0, 1.0, 40), [np.nan]])
    found = upper_heap(values)
    assert found is not None
    assert not found[:80].any()
    assert found[80:120].all()
    assert not found[120]


@pytest.mark.parametrize("shape", ["normal", "uniform", "exponential", "student"])
def test_one_heap_is_one(shape: str) -> None:
    found = 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        draws = {
            "normal": generator.standard_normal,
            "uniform": lambda size, g=generator: g.uniform(0, 1, size),
            "exponential": generator.standard_exponential,
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
    scores = with_heaps(common, values[:, 0], tasks[:, 0], 0.05).standardise(values[:, 0], tasks[:, 0])
    assert np.median(scores[is_faulty]) == pytest.approx(HEAP_SCORE)
    assert np.quantile(scores[~is_faulty], 0.95) < 2.0
