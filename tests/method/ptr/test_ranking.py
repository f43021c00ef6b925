"""The ranking loss on data with a known answer: it falls where the action explains the target, and only there."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from ptr_robot.method import (
    PTR,
    BeliefConfig,
    BeliefTokenizer,
    ChunkForward,
    PoolConfig,
    PTRConfig,
    Samples,
    ScorerConfig,
)
from ptr_robot.method.distributed import RankLayout
from ptr_robot.method.ptr.action_summary import ActionSummaries

WIDTH, LENGTH, BATCH, STEPS = 6, 3, 48, 150


def fresh_batch(step: int, *, action_matters: bool) -> tuple[ChunkForward, Samples]:
    """Consequences of the context alone, or of context and action; the hidden states C_t have seen the context."""
    random = torch.Generator().manual_seed(step)
    contexts, actions = (torch.randn(BATCH, WIDTH, generator=random) for _ in range(2))
    chunk = ChunkForward(
        action_losses=torch.ones(BATCH),
        contexts=contexts,
        action_tokens=actions.unsqueeze(1).expand(-1, LENGTH, -1),
        action_states=contexts.unsqueeze(1).expand(-1, LENGTH, -1),
    )
    targets = F.normalize(contexts + 2 * actions if action_matters else contexts, dim=1)
    ids = torch.arange(step * BATCH, (step + 1) * BATCH)
    return chunk, Samples(targets, torch.ones(BATCH, dtype=torch.bool), ids)


def final_ranking_loss(*, action_matters: bool, informs_scorer: bool = False) -> float:
    """Over the last 20 steps of a short training; every batch is new, so nothing can be overfitted."""
    config = PTRConfig(
        belief=BeliefConfig(informs_scorer=informs_scorer, num_tokens=1),
        scorer=ScorerConfig(hidden_dim=32, identification_weight=1.0, ranking_weight=1.0),
        pool=PoolConfig(queue_size=0),
    )
    ptr = PTR(config, context_dim=WIDTH, action_dim=WIDTH, target_dim=WIDTH)
    optimizer = torch.optim.Adam(ptr.parameters(), lr=3e-3)
    losses = []
    for step in range(STEPS):
        output = ptr(*fresh_batch(step, action_matters=action_matters))
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        ptr.update()
        losses.append(output.ranking_loss.item())
    return sum(losses[-20:]) / 20


@pytest.mark.parametrize("informs_scorer", [False, True])
def test_it_stays_at_chance_where_the_action_carries_nothing(informs_scorer):
    """Also where c̃, which has seen the context, joins the summary: an exchange of all of it ends at .05 or so."""
    loss = final_ranking_loss(action_matters=False, informs_scorer=informs_scorer)
    assert loss == pytest.approx(math.log(2), abs=0.04)


@pytest.mark.parametrize("informs_scorer", [False, True])
def test_it_falls_where_the_action_explains_the_target(informs_scorer):
    assert final_ranking_loss(action_matters=True, informs_scorer=informs_scorer) < 0.3


def test_steps_that_either_chunk_lacks_enter_no_exchanged_summary():
    """Whatever stands on a partner's padding."""
    torch.manual_seed(0)
    tokenizer = BeliefTokenizer(BeliefConfig(informs_scorer=True, num_tokens=2), state_dim=WIDTH, action_dim=WIDTH)
    tokens, states = torch.randn(3, 4, WIDTH), torch.randn(3, 4, WIDTH)
    is_real_step = torch.tensor([[True] * 4, [True, True, False, False], [True] * 3 + [False]])
    partners = torch.tensor([1, 2, 0])

    def exchanged(given: torch.Tensor) -> torch.Tensor:
        chunk = ChunkForward(torch.ones(3), torch.randn(3, WIDTH), given, states)
        return ActionSummaries(chunk, is_real_step, tokenizer).exchanged(partners, RankLayout(rank=0, counts=(3,)))

    padded = tokens.masked_fill(~is_real_step.unsqueeze(2), 50.0)
    torch.testing.assert_close(exchanged(padded), exchanged(tokens))
