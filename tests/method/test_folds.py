"""Cross-fitting: who trains whom, and that nothing leaks through what the heads share."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ptr_robot.method import PTR, BeliefConfig, ChunkForward, PTRConfig, Samples, ScorerConfig, WeightConfig
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


def mean_score_on_noise(num_folds: int, detach: bool) -> float:
    """Train a roomy backbone jointly with the scorer on targets that are pure noise: there is nothing to identify."""
    torch.manual_seed(0)
    episodes = torch.arange(64) // 4
    inputs, actions = torch.randn(64, 8), torch.randn(64, 2, 4)
    targets = F.normalize(torch.randn(64, 8), dim=1)
    backbone = nn.Sequential(nn.Linear(8, 128), nn.GELU(), nn.Linear(128, 32))
    embed = nn.Linear(4, 16)
    scorer = ScorerConfig(hidden_dim=64, num_folds=num_folds, detach_features=detach, identification_weight=1.0)
    config = PTRConfig(belief=BeliefConfig(enabled=False), scorer=scorer, weights=WeightConfig(alpha=0.0))
    ptr = PTR(config, context_dim=32, action_dim=16, target_dim=8)
    learned = [*backbone.parameters(), *embed.parameters(), *ptr.parameters()]
    optimizer = torch.optim.AdamW(learned, lr=2e-3)

    def step():
        contexts, tokens = backbone(inputs), embed(actions)
        losses = (contexts.mean(dim=1) - actions.mean(dim=(1, 2))).square()
        samples = Samples(targets, torch.ones(64, dtype=torch.bool), torch.arange(64), episode_ids=episodes)
        return ptr(ChunkForward(losses, contexts, tokens), samples)

    for _ in range(150):
        optimizer.zero_grad()
        step().loss.backward()
        optimizer.step()
        ptr.update()
    return step().scores.mean().item()


@pytest.mark.parametrize("detach", [False, True])
def test_cross_fitted_heads_find_nothing_in_noise_though_they_share_the_backbone(detach):
    """In sample the scorer knows every target by heart; its own fold's head must not, attached or detached."""
    assert mean_score_on_noise(1, detach) > 2.0
    assert mean_score_on_noise(4, detach) < 0.1
