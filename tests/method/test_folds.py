"""Cross-fitting: who trains whom, and that nothing leaks through what the heads share."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ptr_robot.method import PTR, BeliefConfig, ChunkForward, PoolConfig, PTRConfig, Samples, ScorerConfig, WeightConfig
from ptr_robot.method.folds import assign_folds, training_shares


@given(st.integers(1, 9), st.integers(0, 60), st.integers(0, 5))
def test_consecutive_episodes_are_spread_evenly(num_folds, first_block, seed):
    episodes = torch.arange(num_folds) + num_folds * first_block
    assert sorted(assign_folds(episodes, num_folds, seed).tolist()) == list(range(num_folds))


def test_folds_do_not_follow_an_alternating_pattern():
    """An operator who recorded every fifth episode must not own a fold."""
    folds = assign_folds(torch.arange(0, 500, 5), 5)
    counts = torch.bincount(folds, minlength=5)
    assert counts.min() >= 8  # of 20 expected


def test_a_fold_is_of_the_episode_alone():
    episodes = torch.tensor([3, 8, 3, 8, 3])
    folds = assign_folds(episodes, 4)
    assert len(set(folds[[0, 2, 4]].tolist())) == 1
    assert folds[0] == assign_folds(torch.tensor([3]), 4)[0]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.integers(1, 6))
def test_shares_sum_to_one_and_leave_the_own_head_out(episodes, num_folds):
    folds = assign_folds(torch.tensor(episodes), num_folds)
    shares = training_shares(folds, num_folds)
    torch.testing.assert_close(shares.sum(dim=0), torch.ones(len(episodes)))
    if num_folds > 1:
        assert (shares.gather(0, folds.unsqueeze(0)) == 0).all()


def own_target_percentile(num_folds: int, detach: bool | None) -> float:
    """Train jointly on targets that are pure noise; where each own target ranks among all, 0.5 being chance.

    Wide inputs and narrow targets make it easy for a backbone to carry a sample's target to a head that never saw it.
    """
    torch.manual_seed(0)
    count = 96
    inputs, actions = torch.randn(count, 64), torch.randn(count, 2, 4)
    targets = F.normalize(torch.randn(count, 4), dim=1)
    backbone = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32))
    embed = nn.Linear(4, 16)
    scorer = ScorerConfig(hidden_dim=64, num_folds=num_folds, detach_features=detach, identification_weight=1.0)
    config = PTRConfig(
        belief=BeliefConfig(enabled=False),
        pool=PoolConfig(queue_size=0),
        scorer=scorer,
        weights=WeightConfig(alpha=0.0),
    )
    ptr = PTR(config, context_dim=32, action_dim=16, target_dim=4)
    optimizer = torch.optim.AdamW([*backbone.parameters(), *embed.parameters(), *ptr.parameters()], lr=2e-3)
    samples = Samples(
        targets, torch.ones(count, dtype=torch.bool), torch.arange(count), episode_ids=torch.arange(count) // 4
    )
    for _ in range(50):
        contexts, tokens = backbone(inputs), embed(actions)
        losses = (contexts.mean(dim=1) - actions.mean(dim=(1, 2))).square()
        optimizer.zero_grad()
        ptr(ChunkForward(losses, contexts, tokens), samples).loss.backward()
        optimizer.step()
        ptr.update()
    with torch.no_grad():
        folds = assign_folds(samples.episode_ids, num_folds) if num_folds > 1 else torch.zeros(count, dtype=torch.int64)
        queries = ptr.scorer.heads(backbone(inputs), embed(actions).mean(dim=1))[folds, torch.arange(count)]
        cosines = queries @ targets.T
        return (cosines < cosines.diagonal().unsqueeze(1)).float().mean().item()


def test_in_sample_the_scorer_knows_noise_by_heart():
    assert own_target_percentile(1, None) > 0.9


def test_cross_fitted_heads_are_at_chance_on_noise():
    """Detached, which is what folds do unless told otherwise; ± 0.1 is three standard errors of 96 samples."""
    assert own_target_percentile(5, None) == pytest.approx(0.5, abs=0.1)


def test_a_shared_backbone_does_leak_which_is_why_folds_detach():
    assert own_target_percentile(5, False) > 0.7


def test_folds_detach_unless_told_otherwise():
    assert not ScorerConfig().is_detached
    assert ScorerConfig(num_folds=2).is_detached
    assert not ScorerConfig(num_folds=2, detach_features=False).is_detached
