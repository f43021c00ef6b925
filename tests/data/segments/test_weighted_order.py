"""Segments drawn by weight: expected counts by enumeration, resumed and shared over ranks as any other order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.lerobot.feature_statistics import weighted_statistics
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.data.segments.loader import make_loader
from ptr_robot.data.segments.sampling import BatchPlan, EpochOrder, WeightedOrder
from ptr_robot.errors import ConfigError

WEIGHTS = np.array([0.25, 4.0, 1.0, 0.0, 2.0, 1.0, 0.5])


@pytest.fixture
def config(v21, tmp_path) -> DataConfig:
    return DataConfig(
        sources=[SourceConfig(repo_id=str(v21))],
        chunk_length=4,
        num_chunks=2,
        image_size=0,
        cache_dir=str(tmp_path / "cache"),
    )


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30).filter(any), st.integers(0, 3), st.integers(1, 60))
def test_each_segment_comes_as_often_as_it_is_expected_rounded_up_or_down(weights, epoch, length):
    order = WeightedOrder(EpochOrder((len(weights),), seed=5), np.array(weights), max_length=length)
    drawn = order.epoch(epoch)
    assert len(drawn) == order.length == min(length, len(weights))
    counted = np.bincount(drawn, minlength=len(weights))
    assert (np.abs(counted - order.expected_counts()) < 1 + 1e-6).all()
    assert not counted[np.array(weights) == 0].any()


def test_the_mean_over_epochs_is_the_weighted_mean_of_the_loss():
    """Plain means over drawn segments against Σwℓ / Σw over all of them."""
    losses = np.random.default_rng(0).random(len(WEIGHTS))
    order = WeightedOrder(EpochOrder((len(WEIGHTS),), seed=1), WEIGHTS)
    means = [losses[order.epoch(epoch)].mean() for epoch in range(4000)]
    expected = (WEIGHTS * losses).sum() / WEIGHTS.sum()
    assert np.mean(means) == pytest.approx(expected, abs=4 * np.std(means) / 4000**0.5)
    assert (order.expected_counts() * losses).sum() / order.length == pytest.approx(expected)


def test_sources_keep_their_stated_shares_times_their_mean_weight():
    """q(m) ∝ π_m E_m[w]: the first source is a tenth of the segments, half of the data, and weighs double."""
    weights = np.concatenate([np.full(10, 2.0), np.ones(90)])
    order = WeightedOrder(EpochOrder((10, 90), weights=(1.0, 1.0)), weights)
    assert order.expected_counts()[:10].sum() / order.length == pytest.approx(2 / 3)
    assert (order.epoch(0) < 10).mean() == pytest.approx(2 / 3, abs=0.02)


def test_equal_weights_bring_every_segment_once():
    order = WeightedOrder(EpochOrder((50,)), np.full(50, 0.3))
    assert sorted(order.epoch(3).tolist()) == list(range(50))
    assert order.epoch(3).tolist() != order.epoch(4).tolist()


@given(st.integers(1, 40), st.integers(0, 5))
def test_draws_that_are_shorter_than_an_epoch_go_once_through_the_data_together(length, epoch):
    order = WeightedOrder(EpochOrder((40,), seed=3), np.full(40, 0.3), max_length=length)
    draws = -(-40 // length)
    parts = [order.epoch(draws * epoch + part) for part in range(draws)]
    assert all(len(part) == length == len(set(part.tolist())) for part in parts)
    counted = np.bincount(np.concatenate(parts), minlength=40)
    assert counted.min() >= 1
    assert counted.max() <= (1 if draws * length == 40 else 2)


def test_ranks_share_the_batches_of_one_process():
    order = WeightedOrder(EpochOrder((40,), seed=2), np.linspace(0, 4, 40))
    one = list(BatchPlan(order, 8).batches(2))
    ranks = [list(BatchPlan(order, 4, rank, 2).batches(2)) for rank in range(2)]
    assert one == [[*first, *second] for first, second in zip(*ranks, strict=True)]


@pytest.mark.parametrize("weights", [np.zeros(3), np.array([1.0, -1.0, 1.0]), np.array([1.0, np.nan, 1.0]), np.ones(2)])
def test_unusable_weights_are_refused(weights):
    with pytest.raises(ConfigError, match="weigh"):
        WeightedOrder(EpochOrder((3,)), weights)


def test_a_resumed_loader_goes_on_in_the_draw_that_it_was_in(config):
    """Weights that moved at the last draw are in the state; those of the resumed run's start do not matter."""

    def loader(weight: float):
        made = make_loader(config, 2, seed=3)
        weights = np.ones(made.dataset.num_episodes)
        weights[0] = weight
        made.draw_by(weights, max_batches=3)
        return made

    first = loader(0.2)
    list(first)  # one draw
    moved = np.full(first.dataset.num_episodes, 0.5)
    moved[1] = 3.0
    first.draw_by(moved, max_batches=3)
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    rest = [batch.sample_id.tolist() for batch in batches]
    again = loader(1.0)
    again.load_state_dict(state)
    assert [batch.sample_id.tolist() for batch in again] == rest
    assert len(rest) == 2


def test_resuming_without_the_draw_is_refused(config):
    drawn = make_loader(config, 2)
    drawn.draw_by(np.ones(drawn.dataset.num_episodes), max_batches=3)
    other = make_loader(config, 2)
    other.draw_by(np.ones(drawn.dataset.num_episodes), max_batches=4)
    with pytest.raises(ConfigError, match="draw_batches was 3 and is now 4"):
        other.load_state_dict(drawn.state_dict())


def test_episodes_come_in_proportion_to_their_weights(config):
    episodes = SegmentDataset(config).num_episodes
    weights = np.ones(episodes)
    weights[0] = 0.0
    loader = make_loader(config, 1, episode_weights=weights)
    seen = Counter(int(batch.episode_id) for _ in range(2) for batch in loader)
    assert 0 not in seen
    assert set(seen) == set(range(1, episodes))


def test_statistics_are_those_of_repeated_frames():
    frames = np.random.default_rng(0).normal(size=(60, 2))
    repeats = np.arange(60) % 4
    found = weighted_statistics(frames, repeats / 7.0)
    repeated = np.repeat(frames, repeats, axis=0)
    np.testing.assert_allclose(found.mean, repeated.mean(axis=0))
    np.testing.assert_allclose(found.std, repeated.std(axis=0))
    np.testing.assert_array_equal(found.minimum, repeated.min(axis=0))
    np.testing.assert_allclose(found.q99, np.quantile(repeated, 0.99, axis=0, method="inverted_cdf"))


def test_normalisers_follow_the_weights(config):
    plain = SegmentDataset(config)
    alone, alike = np.zeros(plain.num_episodes), np.full(plain.num_episodes, 2.0)
    alone[0] = 1.0
    source = SegmentDataset(config, episode_weights=alone).sources[0]
    frames = source.tables.states[: source.index.episodes[0].length]
    assert np.abs(source.state_map.normaliser.normalise(frames)).max() < 1.5  # its own percentiles
    equal = SegmentDataset(config, episode_weights=alike).sources[0].state_map.normaliser
    np.testing.assert_array_equal(equal.offset, plain.sources[0].state_map.normaliser.offset)
    assert not np.array_equal(source.state_map.normaliser.offset, equal.offset)
