"""Intervals over seeds, recomputed by plain arithmetic and by enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ptr_robot.eval.success_statistics import wilson_interval
from ptr_robot.study.analysis.seed_statistics import (
    cluster_bootstrap,
    gap_share,
    mean_interval,
    paired_difference,
    success_difference,
    success_rate,
)

T_OF_TWO = 4.302652729911275  # Student's 97.5% quantile with 2 degrees of freedom, from tables
T_OF_THREE = 3.182446305284263


def made(rates: dict[int, list[int]]) -> dict[int, np.ndarray]:
    return {seed: np.array(values, dtype=float) for seed, values in rates.items()}


BASE = made({0: [1, 0, 0, 0], 1: [0, 0, 1, 0], 2: [1, 1, 0, 0]})
BETTER = made({0: [1, 1, 0, 0], 1: [1, 0, 1, 1], 2: [1, 1, 1, 0], 7: [1, 1, 1, 1]})
BEST = made({0: [1, 1, 1, 1], 1: [1, 1, 1, 1], 2: [1, 1, 1, 1]})


def test_the_difference_is_paired_by_the_seeds_that_both_have() -> None:
    interval = paired_difference(BETTER, BASE)
    differences = [0.25, 0.5, 0.25]
    mean = sum(differences) / 3
    deviation = math.sqrt(sum((value - mean) ** 2 for value in differences) / 2)
    assert interval.estimate == pytest.approx(mean)
    assert interval.high - mean == pytest.approx(T_OF_TWO * deviation / math.sqrt(3))
    assert mean - interval.low == pytest.approx(interval.high - mean)


def test_the_mean_has_students_interval() -> None:
    values = [0.2, 0.5, 0.4, 0.7]
    mean = sum(values) / 4
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / 3)
    assert mean_interval(values).high == pytest.approx(mean + T_OF_THREE * deviation / 2)


def test_one_seed_tells_nothing_about_seeds() -> None:
    assert math.isnan(mean_interval([0.5]).low)
    interval = paired_difference(made({0: [1, 1]}), made({0: [0, 1]}))
    assert interval.estimate == 0.5
    assert math.isnan(interval.low)
    assert paired_difference(made({0: [1]}), made({1: [1]})) is None


def test_seeds_that_agree_by_chance_leave_the_doubt_of_their_episodes() -> None:
    """Both seeds differ by exactly .1; counted by hand, with half an episode added to each of the four ways."""
    base = made({0: [1] * 5 + [0] * 5, 1: [1] * 4 + [0] * 6})
    better = made({0: [1] * 4 + [0] + [1] * 2 + [0] * 3, 1: [1] * 5 + [0] * 5})
    assert paired_difference(better, base).high == pytest.approx(0.1)
    interval = success_difference(better, base)
    gained, lost, count = 3 + 0.5, 1 + 0.5, 20 + 2
    centre = (gained - lost) / count
    half_width = 1.959963984540054 * math.sqrt(((gained + lost) / count - centre**2) / count)
    assert interval.estimate == pytest.approx(0.1)
    assert interval.low == pytest.approx(centre - half_width)
    assert interval.high == pytest.approx(centre + half_width)
    assert gap_share(better, base, better) is None  # and a share of what may be chance means nothing


def test_rates_that_agree_by_chance_leave_the_doubt_of_their_episodes_too() -> None:
    alike = success_rate(made({0: [1] * 9 + [0], 1: [0] + [1] * 9}))
    expected = wilson_interval(18, 20)
    assert (alike.estimate, alike.low, alike.high) == (0.9, expected.low, expected.high)
    apart = {seed: np.repeat([1.0, 0.0], [ones, 1000 - ones]) for seed, ones in enumerate((500, 600, 400))}
    assert success_rate(apart) == mean_interval([0.5, 0.6, 0.4])
    assert math.isnan(success_rate(made({0: [1, 0]})).low)


def test_seeds_that_differ_have_students_interval_whatever_their_episodes_say() -> None:
    many = {seed: np.repeat(values, 100) for seed, values in BETTER.items()}
    base = {seed: np.repeat(values, 100) for seed, values in BASE.items()}
    assert success_difference(many, base) == paired_difference(many, base)
    far = success_difference({0: many[0], 7: many[7]}, {0: base[0], 7: 0 * base[0]})
    assert (far.low, far.high) == (-1, 1)  # two seeds: .25 and 1 apart
    assert success_difference(made({0: [1]}), made({1: [1]})) is None
    assert math.isnan(success_difference(made({0: [1, 1]}), made({0: [0, 1]})).low)


def test_the_share_of_the_gap_ends_where_a_paired_difference_just_holds_zero() -> None:
    gains, gaps = [0.25, 0.5, 0.3, 0.35], [0.75, 0.7, 0.65, 0.6]
    base = made({number: [0] * 100 for number in range(4)})
    share = gap_share(
        *(made({n: [v] * 100 for n, v in enumerate(part)}) if part else base for part in (gains, None, gaps))
    )
    assert share.estimate == pytest.approx(sum(gains) / sum(gaps))
    assert share.low < share.estimate < share.high
    for limit in (share.low, share.high):
        rest = [gain - limit * gap for gain, gap in zip(gains, gaps, strict=True)]
        mean = sum(rest) / 4
        deviation = math.sqrt(sum((value - mean) ** 2 for value in rest) / 3)
        assert abs(mean) == pytest.approx(T_OF_THREE * deviation / 2)


def test_the_interval_of_the_share_holds_it_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    holds = []
    while len(holds) < 600:
        base, better, best = generator.normal([[0.58], [0.68], [0.74]], 0.05, (3, 5))
        share = gap_share(*({n: np.repeat(rates[n], 1000) for n in range(5)} for rates in (better, base, best)))
        if share is not None:  # the gap's own interval is above zero
            holds.append(share.low <= (0.68 - 0.58) / (0.74 - 0.58) <= share.high)
    assert 0.92 <= np.mean(holds) <= 0.98


def test_there_is_no_share_of_a_gap_that_may_be_chance() -> None:
    unsure = made({0: [1, 1, 1, 1], 1: [0, 0, 1, 0], 2: [1, 1, 0, 0]})
    assert paired_difference(unsure, BASE).low < 0
    assert gap_share(BETTER, BASE, unsure) is None
    assert gap_share(BETTER, BASE, {}) is None
    assert gap_share(made({0: [1, 1, 1, 1]}), made({0: [0, 0, 0, 0]}), made({0: [1, 1, 1, 1]})) is None


def test_the_bootstrap_repeats_and_is_centred_and_wider_with_fewer_layouts() -> None:
    first = cluster_bootstrap(BETTER, BASE)
    assert first == cluster_bootstrap(BETTER, BASE)
    assert first.low <= first.estimate <= first.high
    assert first.estimate == pytest.approx(1 / 3)
    more = cluster_bootstrap(*({s: np.tile(v, 50) for s, v in part.items()} for part in (BETTER, BASE)))
    assert more.high - more.low < first.high - first.low


def test_the_bootstrap_has_the_variance_that_theory_gives() -> None:
    """Var of the mean = (variance between seeds + mean variance within / layouts) / seeds, for plug-in variances."""
    generator = np.random.default_rng(0)
    base = {seed: np.zeros(20) for seed in range(12)}
    method = {seed: (generator.random(20) < 0.3 + 0.03 * seed).astype(float) for seed in range(12)}
    interval = cluster_bootstrap(method, base)
    means = np.array([values.mean() for values in method.values()])
    within = np.mean([values.var() / len(values) for values in method.values()])
    expected = math.sqrt((means.var() + within) / 12)
    assert (interval.high - interval.low) / (2 * 1.96) == pytest.approx(expected, rel=0.06)
