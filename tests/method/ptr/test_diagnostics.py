from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ptr_robot.method import PTRConfig, ScorerConfig, diagnose
from ptr_robot.method.ptr.diagnostics import Histogram
from tests.method.conftest import NO_WARMUP, make_batch, make_ptr


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    if not values:
        return math.nan, math.nan
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


@settings(max_examples=20)
@given(st.integers(0, 500), st.integers(1, 30))
def test_numbers_against_plain_loops_and_their_bounds(seed, count):
    ptr = make_ptr()
    chunk, samples = make_batch(count, seed=seed)
    output = ptr(chunk, samples)
    numbers = diagnose(ptr, output, samples)
    weights = output.weights.double().tolist()
    total = sum(weights)
    assert numbers.effective_sample_size == pytest.approx(total**2 / sum(w * w for w in weights))
    assert numbers.kl == pytest.approx(sum(w / total * math.log(w / total * count) for w in weights), abs=1e-9)
    assert numbers.kl <= numbers.kl_bound + 1e-9 == pytest.approx(math.log(16))
    assert numbers.ratio_low - 1e-6 <= numbers.ratio_min <= numbers.ratio_max <= numbers.ratio_high + 1e-6
    assert numbers.valid_ratio == pytest.approx(samples.has_target.float().mean().item())
    for source, share in numbers.sources.items():
        mine = [w for w, s in zip(weights, samples.source_ids.tolist(), strict=True) if s == source]
        assert share.data_share == pytest.approx(len(mine) / count)
        assert share.ratio == pytest.approx(sum(mine) / total / (len(mine) / count))
        assert (share.ratio_low, share.ratio_high) == pytest.approx((0.25 / 4, 4 / 0.25))
        assert share.ratio_low <= share.ratio <= share.ratio_high
    assert sum(share.training_share for share in numbers.sources.values()) == pytest.approx(1.0)
    assert sum(numbers.weight_histogram.counts) == count
    assert sum(numbers.score_histogram.counts) == int(output.is_scored.sum())


@settings(max_examples=20)
@given(st.integers(0, 500), st.integers(1, 30))
def test_means_deviations_and_ratios_against_plain_loops(seed, count):
    ptr = make_ptr()
    chunk, samples = make_batch(count, seed=seed)
    output = ptr(chunk, samples)
    numbers = diagnose(ptr, output, samples)
    weights, has_target = output.weights.double().tolist(), samples.has_target.tolist()
    scores = [score for score, has in zip(output.scores.tolist(), has_target, strict=True) if has]
    mean, deviation = mean_and_deviation(weights)
    assert numbers.num_samples == count
    assert (numbers.weight_mean, numbers.weight_std) == pytest.approx((mean, deviation))
    assert (numbers.ratio_min, numbers.ratio_max) == pytest.approx((min(weights) / mean, max(weights) / mean))
    assert (numbers.ratio_low, numbers.ratio_high) == pytest.approx((0.25 / mean, 4 / mean))
    expected = pytest.approx(mean_and_deviation(scores), rel=1e-4, abs=1e-5, nan_ok=True)
    assert (numbers.score_mean, numbers.score_std) == expected
    # The queue is empty and every sample is another: each is identified among all that have a target.
    assert numbers.candidates == pytest.approx(len(scores) if scores else math.nan, nan_ok=True)


def test_accuracy_and_margin_are_of_the_scored_samples():
    ptr = make_ptr()
    chunk, samples = make_batch(12, seed=1)
    output = ptr(chunk, samples)
    numbers = diagnose(ptr, output, samples)
    margins = [m for m, v in zip(output.margins.tolist(), samples.has_target.tolist(), strict=True) if v]
    assert numbers.margin == pytest.approx(sum(margins) / len(margins), rel=1e-5)
    assert numbers.accuracy == pytest.approx(sum(m > 0 for m in margins) / len(margins))


def test_nothing_scored_gives_nan_not_an_error():
    ptr = make_ptr(PTRConfig(scorer=ScorerConfig(enabled=False), weights=NO_WARMUP))
    chunk, samples = make_batch(5)
    numbers = diagnose(ptr, ptr(chunk, samples), samples)
    assert math.isnan(numbers.score_mean)
    assert numbers.effective_sample_size == 5
    assert numbers.kl == 0


def test_scalars_are_flat_floats():
    ptr = make_ptr()
    chunk, samples = make_batch()
    scalars = diagnose(ptr, ptr(chunk, samples), samples).scalars()
    assert all(isinstance(value, float) for value in scalars.values())
    assert {"kl", "effective_sample_size", "temperature", "source_0/ratio"} <= set(scalars)


def test_histogram_counts():
    histogram = Histogram.of(torch.tensor([0.0, 0.1, 0.55, 1.0]), 0.0, 1.0, num_bins=2)
    assert histogram.counts == (2, 2)
    assert histogram.edges == (0.0, 0.5, 1.0)


def test_a_step_in_which_nothing_counts_gives_nan_not_an_error():
    ptr = make_ptr()
    chunk, samples = make_batch(5)
    for nothing in ({"prior_weights": torch.zeros(5)}, {"chunk_is_pad": torch.ones(5, dtype=torch.bool)}):
        silent = replace(samples, **nothing)
        output = ptr(chunk, silent)
        numbers = diagnose(ptr, output, silent)
        assert math.isnan(numbers.effective_sample_size)
        assert math.isnan(numbers.ratio_max)
        assert float(output.action_loss) == 0


@settings(max_examples=20)
@given(st.lists(st.just(0.0) | st.floats(0.01, 3), min_size=6, max_size=6).filter(any))
def test_the_users_own_factors_widen_the_bounds(factors):
    ptr = make_ptr()
    chunk, samples = make_batch(6)
    samples = replace(samples, prior_weights=torch.tensor(factors))
    output = ptr(chunk, samples)
    numbers = diagnose(ptr, output, samples)
    mean = sum(output.weights.double().tolist()) / 6
    low, high = 0.25 * min(factors), 4 * max(factors)
    assert (numbers.ratio_low, numbers.ratio_high) == pytest.approx((low / mean, high / mean))
    for share in numbers.sources.values():
        assert (share.ratio_low, share.ratio_high) == pytest.approx((low / high, high / low if low else math.inf))
    assert numbers.ratio_low - 1e-6 <= numbers.ratio_min <= numbers.ratio_max <= numbers.ratio_high * (1 + 1e-6)
    assert numbers.kl <= numbers.kl_bound + 1e-9
    assert sum(numbers.weight_histogram.counts) == 6
