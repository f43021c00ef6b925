"""The three questions recomputed by plain loops and known densities; heads are never trained on what they score."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Normal

from ptr_robot.method.folds import assign_folds
from ptr_robot.method.heads import instruction_codes
from ptr_robot.method.scoring.cross_fit import WhichAction, WhichConsequence, WhichInstruction, cross_fit

COUNT, WIDTH = 40, 6
SETTINGS = {"num_folds": 4, "hidden_dim": 16, "batch_size": 32, "lr": 1e-2, "weight_decay": 0.0}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_consequence_is_scored_among_the_pool_without_itself():
    question = WhichConsequence(random(COUNT, WIDTH), temperature=0.3, pool_size=12)
    queries = torch.nn.functional.normalize(random(COUNT, WIDTH, seed=1), dim=1)
    scores = question.scores(queries)
    for row in range(COUNT):
        others = [other for other in question.pool.tolist() if other != row]
        cosine = {other: float(queries[row] @ question.targets[other]) / 0.3 for other in [row, *others]}
        total = sum(math.exp(value) for value in cosine.values())
        expected = cosine[row] - math.log(total) + math.log(len(others) + 1)
        assert scores[row].item() == pytest.approx(expected, abs=1e-4)


def test_a_chunk_drawn_twice_is_no_candidate_against_itself():
    question = WhichConsequence(random(COUNT, WIDTH), temperature=0.3, pool_size=12)
    queries = torch.nn.functional.normalize(random(2, 3, WIDTH, seed=1), dim=2)
    losses = question.losses(queries, torch.tensor([5, 9, 5]))
    for head in range(2):
        own, other = (math.exp(float(queries[head, 0] @ question.targets[row]) / 0.3) for row in (5, 9))
        assert losses[head, 0].item() == pytest.approx(-math.log(own / (own + other)), abs=1e-5)


def test_the_action_is_scored_by_normal_densities():
    """log p(own) - log mean p(candidate), each a product of normal densities to the power of 1 / √D."""
    question = WhichAction(random(COUNT, WIDTH), pool_size=12)
    queries = question.targets + 0.3 * random(COUNT, WIDTH, seed=1)
    widths = (queries - question.targets).square().mean(dim=0).sqrt()
    scores = question.scores(queries)
    for row in range(COUNT):
        density = Normal(queries[row], widths)
        others = [other for other in question.pool.tolist() if other != row]
        logs = [density.log_prob(question.targets[other]).sum() / WIDTH**0.5 for other in [row, *others]]
        expected = logs[0] - torch.stack(logs).exp().mean().log()
        assert scores[row].item() == pytest.approx(expected.item(), abs=1e-3)


def test_the_instruction_is_scored_among_the_distinct_ones():
    tasks = torch.arange(COUNT) % 3 + 5
    question = WhichInstruction(tasks, torch.tensor([5, 6, 7]), temperature=0.5)
    queries = torch.nn.functional.normalize(random(COUNT, question.target_dim), dim=1)
    codes = instruction_codes(torch.tensor([5, 6, 7]))
    scores, losses = question.scores(queries), question.losses(queries.unsqueeze(0), torch.arange(COUNT))[0]
    for row in range(COUNT):
        logits = [math.exp(float(queries[row] @ code) / 0.5) for code in codes]
        expected = math.log(logits[int(tasks[row]) - 5] / sum(logits) * 3)
        assert scores[row].item() == pytest.approx(expected, abs=1e-4)
        assert losses[row].item() == pytest.approx(math.log(3) - expected, abs=1e-4)


def test_chunks_with_another_instruction_than_the_candidates_are_not_trained_on():
    tasks = torch.arange(COUNT) % 3
    question = WhichInstruction(tasks, torch.tensor([0, 1]), temperature=0.5)
    losses = question.losses(random(1, COUNT, question.target_dim), torch.arange(COUNT))[0]
    assert (losses[tasks < 2] > 0).all()
    assert (losses[tasks == 2] == 0).all()


def test_likelihoods_compare_predictions_by_the_same_errors():
    """Differences are those of normal densities to the power of 1 / √D, and of cosines over the temperature."""
    actions = WhichAction(random(COUNT, WIDTH), pool_size=12)
    usual, other = (actions.targets + size * random(COUNT, WIDTH, seed=seed) for seed, size in ((1, 0.3), (2, 0.6)))
    widths = (usual - actions.targets).square().mean(dim=0).sqrt()
    found = actions.log_likelihoods(usual, usual) - actions.log_likelihoods(other, usual)
    for row in range(COUNT):
        logs = [Normal(queries[row], widths).log_prob(actions.targets[row]).sum() for queries in (usual, other)]
        assert found[row].item() == pytest.approx(float(logs[0] - logs[1]) / WIDTH**0.5, abs=1e-3)
    consequences = WhichConsequence(random(COUNT, WIDTH), temperature=0.3, pool_size=12)
    queries = torch.nn.functional.normalize(random(COUNT, WIDTH, seed=1), dim=1)
    expected = torch.stack([queries[row] @ consequences.targets[row] / 0.3 for row in range(COUNT)])
    torch.testing.assert_close(consequences.log_likelihoods(queries, queries), expected)


def test_no_head_is_trained_on_the_episodes_that_it_scores():
    inputs, episodes = random(COUNT, 4), torch.arange(COUNT) // 4
    folds = assign_folds(episodes, 4)
    question = WhichAction(random(COUNT, WIDTH, seed=1), pool_size=12)
    answers = []
    for changed in (False, True):
        if changed:
            question.targets = torch.where((folds == 2).unsqueeze(1), -7.0, question.targets)
        torch.manual_seed(0)
        answers.append(cross_fit(question, inputs, folds, steps=1, **SETTINGS).queries(inputs))
    held_out = folds == 2
    assert torch.equal(answers[0][held_out], answers[1][held_out])
    assert not torch.allclose(answers[0][~held_out], answers[1][~held_out])


def test_learning_ends_where_held_out_queries_are_best():
    """Pure noise can only be overfitted: the longer, the worse; what is returned is from an early step."""
    inputs, episodes = random(COUNT, 4), torch.arange(COUNT) // 4
    folds = assign_folds(episodes, 4)
    question = WhichAction(random(COUNT, WIDTH, seed=1), pool_size=12)
    torch.manual_seed(0)
    early = cross_fit(question, inputs, folds, steps=256, **SETTINGS).queries(inputs)
    assert (early - question.targets).square().mean() < 1.3  # a head that overfits its own chunks is near 2


def test_each_chunk_is_answered_by_the_head_of_its_own_fold():
    inputs, episodes = random(COUNT, 3), torch.arange(COUNT) // 4
    folds = assign_folds(episodes, 4, 0)
    question = WhichConsequence(random(COUNT, WIDTH, seed=2), temperature=0.3, pool_size=12)
    fitted = cross_fit(question, inputs, folds, steps=3, **SETTINGS)
    every = fitted.heads(inputs)  # (F, N, D)
    expected = torch.stack([every[fold, row] for row, fold in enumerate(folds.tolist())])
    torch.testing.assert_close(fitted.queries(inputs), expected)
