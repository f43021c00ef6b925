"""Each stop-gradient is shown to stop, and each path that must learn is shown to learn."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ptr_robot.method import BeliefConfig, PTRConfig, ScorerConfig
from ptr_robot.method.distributed import RankLayout
from tests.method.conftest import NO_WARMUP, make_batch, make_ptr

ALL = torch.ones(10, dtype=torch.bool)


def norm(tensor):
    return 0.0 if tensor is None else tensor.abs().sum().item()


def config(**scorer) -> PTRConfig:
    return PTRConfig(scorer=ScorerConfig(hidden_dim=8, **scorer), weights=NO_WARMUP)


def test_the_action_loss_reaches_no_feature_through_the_weights():
    """sg(w): with the scorer's own losses off, nothing but ℓ itself gets a gradient."""
    quiet = PTRConfig(
        belief=BeliefConfig(entropy_weight=0, diversity_weight=0),
        scorer=ScorerConfig(hidden_dim=8, identification_weight=0, ranking_weight=0),
        weights=NO_WARMUP,
    )
    ptr = make_ptr(quiet)
    chunk, samples = make_batch(valid=ALL, grad=True)
    output = ptr(chunk, samples)
    assert (output.weights != 1).any()
    output.loss.backward()
    assert norm(chunk.action_losses.grad) > 0
    for feature in (chunk.contexts, chunk.action_tokens, chunk.action_states):
        assert norm(feature.grad) == 0
    assert all(norm(parameter.grad) == 0 for parameter in ptr.parameters())


def test_weights_and_scores_are_constants():
    output = make_ptr()(*make_batch(grad=True))
    for name in ("weights", "scores", "log_posteriors", "margins", "action_loss", "identification_loss"):
        assert not getattr(output, name).requires_grad


@pytest.mark.parametrize("informs_scorer", [False, True])
@pytest.mark.parametrize("term", ["identification_weight", "ranking_weight"])
def test_the_scorers_losses_train_heads_and_policy_and_by_a_switch_the_tokenizer(term, informs_scorer):
    off = {"identification_weight": 0.0, "ranking_weight": 0.0} | {term: 1.0}
    belief = BeliefConfig(entropy_weight=0, diversity_weight=0, informs_scorer=informs_scorer)
    ptr = make_ptr(replace(config(**off), belief=belief))
    chunk, samples = make_batch(valid=ALL, grad=True)
    ptr(chunk, samples).loss.backward()
    for layer in ("context", "action_in", "action_out", "output"):
        assert norm(getattr(ptr.scorer.heads, layer).weight.grad) > 0
    assert (norm(ptr.belief.fuse.weight.grad) > 0) == informs_scorer  # through the reconstructions
    assert (norm(ptr.belief.assign.weight.grad) > 0) == informs_scorer
    assert norm(chunk.action_tokens.grad) > 0
    assert norm(chunk.contexts.grad) > 0


def test_the_switch_detaches_the_scorer_from_the_backbone():
    ptr = make_ptr(replace(config(detach_features=True), belief=BeliefConfig(entropy_weight=0, diversity_weight=0)))
    chunk, samples = make_batch(valid=ALL, grad=True)
    ptr(chunk, samples).loss.backward()
    assert norm(ptr.scorer.heads.output.weight.grad) > 0
    for feature in (chunk.contexts, chunk.action_tokens, chunk.action_states):
        assert norm(feature.grad) == 0
    assert norm(ptr.belief.fuse.weight.grad) == 0
    assert norm(chunk.action_losses.grad) > 0


def test_no_gradient_enters_targets_or_the_queue():
    ptr = make_ptr()
    chunk, samples = make_batch(valid=ALL)
    ptr(chunk, samples)
    ptr.update()
    targets = samples.targets.clone().requires_grad_()
    ptr(*(replace(chunk), replace(samples, targets=targets, sample_ids=samples.sample_ids + 100))).loss.backward()
    assert targets.grad is None
    assert not ptr.pool.queue.targets.requires_grad


def test_a_permuted_action_enters_the_ranking_loss_as_a_constant():
    """Only the sample's own action features learn from its ranking term."""
    ptr = make_ptr(config(identification_weight=0.0))
    chunk, samples = make_batch(2, valid=torch.ones(2, dtype=torch.bool), grad=True)
    output = ptr(chunk, samples)
    output.auxiliary_loss.backward()
    tokens = chunk.action_tokens.grad.clone()
    assert (tokens.abs().sum(dim=(1, 2)) > 0).all()
    # With one of the two samples' terms removed, that sample's features get nothing from the other's term.
    lonely = replace(samples, offsets=None)
    chunk_two, _ = make_batch(2, valid=torch.ones(2, dtype=torch.bool), grad=True)
    evidence, _ = ptr._identify(chunk_two, lonely, ptr._tokenize(chunk_two, None), RankLayout(0, (2,)))
    evidence.ranking[0].backward()
    assert norm(chunk_two.action_tokens.grad[0]) > 0
    assert norm(chunk_two.action_tokens.grad[1]) == 0


def test_a_head_never_learns_from_its_own_fold():
    ptr = make_ptr(config(num_folds=3))
    chunk, samples = make_batch(valid=ALL)
    folds = ptr._folds(samples)
    only = folds[0].item()
    mine = folds == only
    samples = replace(samples, has_target=mine)  # only samples of one fold have targets
    ptr(chunk, samples).auxiliary_loss.backward()
    for head in range(3):
        gradient = norm(ptr.scorer.heads.output.weight.grad[head])
        assert (gradient == 0) == (head == only)


def test_the_tokenizers_regularisers_train_it():
    ptr = make_ptr(PTRConfig(scorer=ScorerConfig(enabled=False)))
    ptr(*make_batch()).loss.backward()
    assert norm(ptr.belief.fuse.weight.grad) > 0
    assert norm(ptr.belief.assign.weight.grad) > 0


def test_no_gradient_flows_through_time():
    """z_{t+1} carries nothing back: the first chunk's features get no gradient from the second chunk's loss."""
    ptr = make_ptr()
    first, _ = make_batch(grad=True)
    belief = ptr.next_belief(first)
    chunk, samples = make_batch(seed=1, valid=ALL)
    loss = ptr(replace(chunk, action_losses=chunk.action_losses + belief.mean(dim=(1, 2))), samples).loss
    loss.backward()
    assert norm(first.action_tokens.grad) == 0
    assert norm(first.action_states.grad) == 0
