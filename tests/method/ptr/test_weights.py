from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from ptr_robot.method import ExponentialWeightMap
from ptr_robot.method.ptr.weights import discount_weights, kl_bound
from tests.method import reference

scores = st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=40)
betas = st.floats(0.05, 10)
maps = st.builds(ExponentialWeightMap, st.floats(0, 1), st.floats(0, 1), st.floats(1, 100))


@example([-18.0], 1.0, ExponentialWeightMap(0.9852206504807324, 0.0, 1.0))  # 1 + α (w − 1) lost its last digits
@given(scores, betas, maps)
def test_weights_stay_within_their_bounds_for_any_score(values, beta, weight_map):
    weights = weight_map(torch.tensor(values), beta)
    low, high = weight_map.bounds
    assert (weights >= low - 1e-6 * abs(low)).all()
    assert (weights <= high + 1e-6 * abs(high)).all()


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=20), betas, st.floats(0, 1))
def test_equation_weight_against_plain_numbers(values, beta, alpha):
    weights = ExponentialWeightMap(alpha)(torch.tensor(values), beta)
    expected = [reference.weight(value, beta, alpha) for value in values]
    torch.testing.assert_close(weights, torch.tensor(expected), rtol=1e-4, atol=1e-5)


@given(betas, maps)
def test_score_zero_weighs_one(beta, weight_map):
    assert weight_map(torch.zeros(1), beta).item() == pytest.approx(1.0)


@given(scores, betas, st.floats(0.01, 1), st.floats(0.01, 1), st.floats(1, 50))
def test_kl_to_the_data_is_bounded(values, beta, alpha, w_min, w_max):
    weight_map = ExponentialWeightMap(alpha, w_min, w_max)
    weights = weight_map(torch.tensor(values), beta).double().tolist()
    total, count = sum(weights), len(weights)
    kl = sum(w / total * math.log(w / total * count) for w in weights if w > 0)
    assert kl <= kl_bound(weight_map.bounds) + 1e-6


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-50, 50)), min_size=1, max_size=40), betas)
def test_no_source_grows_or_shrinks_beyond_its_bound(rows, beta):
    """Eq. source_bound."""
    weight_map = ExponentialWeightMap()
    weights = weight_map(torch.tensor([score for _, score in rows]), beta).double().tolist()
    low, high = weight_map.bounds
    for source in {source for source, _ in rows}:
        mine = [w for w, (s, _) in zip(weights, rows, strict=True) if s == source]
        ratio = (sum(mine) / sum(weights)) / (len(mine) / len(rows))
        assert low / high - 1e-6 <= ratio <= high / low + 1e-6


@given(scores, betas, st.floats(0, 10), st.floats(0.01, 1))
def test_the_offset_discount_moves_towards_one(values, beta, offset, gamma):
    weights = ExponentialWeightMap()(torch.tensor(values), beta)
    discounted = discount_weights(weights, torch.full_like(weights, offset), gamma)
    assert ((discounted - 1).abs() <= (weights - 1).abs() + 1e-6).all()
    assert ((discounted - 1) * (weights - 1) >= -1e-9).all()


def test_the_papers_bounds():
    assert ExponentialWeightMap().bounds == (0.25, 4.0)
    assert kl_bound(ExponentialWeightMap().bounds) == pytest.approx(2.7726, abs=1e-4)
    assert ExponentialWeightMap(alpha=0.5).bounds == (0.625, 2.5)
    assert ExponentialWeightMap(alpha=0.0, w_min=0.0, w_max=math.inf).bounds == (1.0, 1.0)
    assert kl_bound(ExponentialWeightMap(w_min=0.0, w_max=math.inf).bounds) == math.inf


def test_without_clipping_the_weight_is_the_exponential():
    weights = ExponentialWeightMap(w_min=0.0, w_max=math.inf)(torch.tensor([-9.0, 9.0]), 1.5)
    torch.testing.assert_close(weights, torch.tensor([math.exp(-6), math.exp(6)]))


@given(scores, betas)
def test_the_order_of_scores_is_kept(values, beta):
    weights = ExponentialWeightMap()(torch.tensor(sorted(values)), beta)
    assert (weights.diff() >= 0).all()
