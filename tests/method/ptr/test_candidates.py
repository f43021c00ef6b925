from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from ptr_robot.method.distributed import RankLayout
from ptr_robot.method.hashing import hash_uniform
from ptr_robot.method.ptr.candidates import CandidatePool, TargetRows
from ptr_robot.method.ptr.config import PoolConfig, PTRConfig, ScorerConfig
from tests.method.conftest import NO_WARMUP, make_batch, make_ptr


def rows(ids, *, valid=None, tasks=None, states=None, dim=4) -> TargetRows:
    count = len(ids)
    return TargetRows(
        targets=torch.tensor(ids, dtype=torch.float32).unsqueeze(1).expand(count, dim).clone(),
        valid=torch.ones(count, dtype=torch.bool) if valid is None else torch.tensor(valid),
        sample_ids=torch.tensor(ids),
        task_ids=torch.zeros(count, dtype=torch.int64) if tasks is None else torch.tensor(tasks),
        states=torch.zeros(count, 1) if states is None else torch.tensor(states, dtype=torch.float32).unsqueeze(1),
    )


def make_pool(size=8, negatives=3, **extra) -> CandidatePool:
    config = PoolConfig(queue_size=size, max_queue_negatives=negatives, **extra)
    return CandidatePool(config, target_dim=4, state_dim=1)


def draw(pool, ids, *, tasks=None, states=None, hard_ratio=0.0, step=0):
    wanted = rows(ids, tasks=tasks, states=states)
    return pool.draw(wanted.sample_ids, wanted.task_ids, wanted.states, hard_ratio=hard_ratio, step=step)


def drawn_ids(pool, mask_row):
    return sorted(pool.queue.sample_ids[mask_row].tolist())


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 99), min_size=0, max_size=12), min_size=1, max_size=6))
def test_the_queue_holds_the_latest_valid_targets(batches):
    pool = make_pool(size=8)
    expected = []
    for ids in batches:
        valid = [i % 3 != 0 for i in ids]
        pool.queue.push(rows(ids, valid=valid) if ids else rows([0], valid=[False]))
        expected = (expected + [i for i in ids if i % 3 != 0])[-8:]
    held = pool.queue.sample_ids[pool.queue.filled].tolist()
    assert sorted(held) == sorted(expected)
    torch.testing.assert_close(pool.queue.targets[pool.queue.filled][:, 0], torch.tensor(held, dtype=torch.float32))


def test_at_most_the_stated_number_is_drawn_and_never_the_sample_itself():
    pool = make_pool(size=64, negatives=5)
    pool.queue.push(rows([7] * 40 + list(range(100, 124))))
    mask = draw(pool, [7, 100, 500])
    assert mask.sum(dim=1).tolist() == [5, 5, 5]
    assert 7 not in drawn_ids(pool, mask[0])
    assert 100 not in drawn_ids(pool, mask[1])


def test_fewer_are_drawn_where_fewer_are_there():
    pool = make_pool(size=64, negatives=5)
    assert draw(pool, [1]).sum() == 0
    pool.queue.push(rows([1, 2, 3]))
    assert drawn_ids(pool, draw(pool, [1])[0]) == [2, 3]


def test_draws_are_uniform_over_steps():
    pool = make_pool(size=20, negatives=5)
    pool.queue.push(rows(list(range(100, 120))))
    counts = sum(draw(pool, [1], step=step).float() for step in range(2000))[0]
    expected = 2000 * 5 / 20
    assert (counts - expected).abs().max() < 5 * (expected * 0.75) ** 0.5  # five standard deviations


def test_hash_is_uniform_and_depends_on_every_part():
    values = hash_uniform(0, torch.arange(1000).unsqueeze(1), torch.arange(100))
    assert values.min() >= 0
    assert values.max() < 1
    assert values.mean().item() == pytest.approx(0.5, abs=0.005)
    assert values.var().item() == pytest.approx(1 / 12, abs=0.002)
    far = torch.tensor([1, 1 + (1 << 40)])  # differ only above the 32nd bit
    assert hash_uniform(far)[0] != hash_uniform(far)[1]


def test_hard_negatives_are_of_the_same_task_and_nearest_in_state():
    pool = make_pool(size=32, negatives=4)
    ids = list(range(100, 120))
    tasks = [i % 2 for i in range(20)]
    states = [float(i) for i in range(20)]
    pool.queue.push(rows(ids, tasks=tasks, states=states))
    mask = draw(pool, [1], tasks=[1], states=[10.2], hard_ratio=0.5)
    same_task_nearest = {109, 111}  # odd ones around 10.2
    assert same_task_nearest <= set(drawn_ids(pool, mask[0]))
    assert mask.sum() == 4


def test_too_few_hard_negatives_are_made_up_by_random_ones():
    pool = make_pool(size=32, negatives=6)
    pool.queue.push(rows(list(range(100, 112)), tasks=[5] + [0] * 11))
    mask = draw(pool, [1], tasks=[5], hard_ratio=1.0)
    assert mask.sum() == 6
    assert 100 in drawn_ids(pool, mask[0])


def test_candidates_are_the_batch_and_the_queue():
    pool = make_pool(size=8, negatives=8)
    pool.queue.push(rows([1, 50]))
    batch = rows([1, 2, 2, 3], valid=[True, True, True, False])
    candidates = pool(batch, RankLayout(0, (4,)), hard_ratio=0.0, step=0)
    assert candidates.targets.shape == (12, 4)
    first = candidates.targets[candidates.is_negative[0]][:, 0].tolist()
    assert sorted(first) == [2, 2, 50]  # not itself, not its earlier epoch, not the one without a target
    second = candidates.targets[candidates.is_negative[1]][:, 0].tolist()
    assert sorted(second) == [1, 1, 50]  # the other copy of sample 2 is sample 2 itself
    assert candidates.counts[:2].tolist() == [4, 4]


def test_without_cross_rank_other_ranks_targets_are_no_candidates():
    batch = rows([1, 2, 3, 4])
    layout = RankLayout(1, (2, 2))
    everyone = make_pool(cross_rank=True)(batch, layout, hard_ratio=0.0, step=0)
    own_rank = make_pool(cross_rank=False)(batch, layout, hard_ratio=0.0, step=0)
    assert everyone.counts.tolist() == [4, 4]
    assert own_rank.counts.tolist() == [2, 2]
    assert own_rank.positive_column.tolist() == [2, 3]


def test_a_queue_of_size_zero_is_no_queue():
    pool = make_pool(size=0)
    pool.queue.push(rows([1, 2, 3]))
    candidates = pool(rows([4, 5]), RankLayout(0, (2,)), hard_ratio=0.5, step=3)
    assert candidates.counts.tolist() == [2, 2]


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor that any operation gave."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, torch.Tensor):
                self.elements = max(self.elements, value.numel())
        return result


@pytest.mark.parametrize("hard_ratio", [0.0, 0.5])
def test_no_target_is_ever_copied_per_sample(hard_ratio):
    """The largest tensor of a step is samples × candidates, never samples × candidates × width."""
    pool = PoolConfig(queue_size=500, max_queue_negatives=400)
    config = PTRConfig(pool=pool, scorer=ScorerConfig(hidden_dim=8), weights=NO_WARMUP)
    ptr = make_ptr(config)
    for step in range(30):
        ptr(*make_batch(20, seed=step, first_id=20 * step))
        ptr.update()
    ptr.controller.hard_ratio = hard_ratio
    with LargestTensor() as largest:
        ptr(*make_batch(20, seed=99, first_id=2000))
    assert 20 * 520 <= largest.elements < 2 * 20 * 520
