"""The order of segments: every one once, ranks that together see one process's batches, stated shares."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.data.segments.sampling import BatchPlan, EpochOrder
from ptr_robot.errors import ConfigError

counts = st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple)


@given(counts, st.integers(0, 5), st.booleans())
def test_without_weights_an_epoch_has_every_segment_once(sizes, epoch, shuffle):
    order = EpochOrder(sizes, seed=4, shuffle=shuffle).epoch(epoch)
    assert sorted(order.tolist()) == list(range(sum(sizes)))
    if not shuffle:
        assert order.tolist() == list(range(sum(sizes)))


def test_order_depends_on_seed_and_epoch_alone():
    orders = {(seed, epoch): EpochOrder((50,), seed=seed).epoch(epoch).tolist() for seed in (0, 1) for epoch in (0, 1)}
    assert len({tuple(order) for order in orders.values()}) == 4
    assert orders[1, 1] == EpochOrder((50,), seed=1).epoch(1).tolist()


@given(st.integers(1, 50), st.integers(1, 5), st.integers(1, 4), st.booleans(), st.integers(0, 3))
def test_ranks_share_the_batches_of_one_process(size, batch_size, world, drop_last, epoch):
    order = EpochOrder((size,), seed=2)
    if drop_last and size < batch_size * world:
        with pytest.raises(ConfigError, match="lower batch_size"):
            BatchPlan(order, batch_size, 0, world, drop_last)
        return
    one = list(BatchPlan(order, batch_size * world, drop_last=drop_last).batches(epoch))
    ranks = [list(BatchPlan(order, batch_size, rank, world, drop_last).batches(epoch)) for rank in range(world)]
    for step, whole in enumerate(one):
        assert [number for rank in ranks for number in rank[step]] == list(whole)
    assert {len(rank) for rank in ranks} == {len(one)}
    seen = [number for batch in one for number in batch]
    assert len(seen) == len(set(seen))
    assert len(seen) == (size // (batch_size * world) * batch_size * world if drop_last else size)


@given(st.integers(10, 60), st.integers(1, 5), st.integers(0, 12))
def test_skipping_gives_the_rest(size, batch_size, skipped):
    plan = BatchPlan(EpochOrder((size,)), batch_size, drop_last=False)
    assert list(plan.batches(3, skipped)) == list(plan.batches(3))[skipped:]


@given(counts, st.data())
def test_weights_are_the_shares_of_an_epoch(sizes, data):
    weights = tuple(data.draw(st.floats(0.05, 10)) for _ in sizes)
    order = EpochOrder(sizes, weights)
    shares = order.shares()
    assert sum(shares) == sum(sizes)
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share - weight / sum(weights) * sum(sizes)) < 1
    ends = np.cumsum(sizes)
    sources = np.searchsorted(ends, order.epoch(2), side="right")
    assert [int((sources == source).sum()) for source in range(len(sizes))] == shares


def test_no_segment_comes_twice_before_all_came_once():
    """Source 0 gives a quarter of 40 a epoch (10 of its 30), source 1 three quarters (30, three rounds of 10)."""
    order = EpochOrder((30, 10), (1.0, 3.0), seed=9)
    epochs = [order.epoch(number) for number in range(3)]
    assert Counter(n for epoch in epochs for n in epoch.tolist() if n < 30) == dict.fromkeys(range(30), 1)
    for epoch in epochs:
        assert Counter(n for n in epoch.tolist() if n >= 30) == dict.fromkeys(range(30, 40), 3)


def test_refused_settings():
    order = EpochOrder((10,))
    with pytest.raises(ConfigError, match="batch_size is 0"):
        BatchPlan(order, 0)
    with pytest.raises(ConfigError, match="rank is 2 of 2"):
        BatchPlan(order, 1, rank=2, world_size=2)
