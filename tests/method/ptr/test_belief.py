from __future__ import annotations

import math

import pytest
import torch

from ptr_robot.method import BeliefConfig, BeliefTokenizer
from tests.method import reference


def tokenizer(temperature: float = 1.0) -> BeliefTokenizer:
    torch.manual_seed(0)
    return BeliefTokenizer(BeliefConfig(num_tokens=3, temperature=temperature), state_dim=4, action_dim=5)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_every_equation_against_plain_loops(temperature):
    belief = tokenizer(temperature)
    states, actions = torch.randn(2, 6, 4), torch.randn(2, 6, 5)
    output = belief(states, actions)
    for row in range(2):
        expected = reference.tokenize(
            states[row].tolist(),
            actions[row].tolist(),
            belief.fuse.weight.tolist(),
            belief.assign.weight.tolist(),
            temperature,
        )
        torch.testing.assert_close(output.next_tokens[row], torch.tensor(expected["tokens"]))
        torch.testing.assert_close(output.reconstructions[row], torch.tensor(expected["rebuilt"]))
        assert output.entropies[row].item() == pytest.approx(expected["entropy"], rel=1e-5)
        assert output.overlaps[row].item() == pytest.approx(expected["overlap"], rel=1e-5)


def test_padded_steps_have_no_influence():
    belief = tokenizer()
    states, actions = torch.randn(2, 6, 4), torch.randn(2, 6, 5)
    mask = torch.tensor([[True] * 4 + [False] * 2] * 2)
    short = belief(states[:, :4], actions[:, :4])
    padded = belief(states, actions, mask)
    torch.testing.assert_close(padded.next_tokens, short.next_tokens)
    torch.testing.assert_close(padded.entropies, short.entropies)
    torch.testing.assert_close(padded.overlaps, short.overlaps)
    assert (padded.reconstructions[:, 4:] == 0).all()


def test_assignments_are_distributions_over_time():
    belief = tokenizer()
    assignments = belief.assignments(torch.randn(3, 6, 5))
    torch.testing.assert_close(assignments.sum(dim=1), torch.ones(3, 3))


def test_entropy_and_overlap_at_their_extremes():
    from ptr_robot.method.ptr.belief import slot_entropies, slot_overlaps

    uniform = torch.full((1, 8, 4), 1 / 8)
    assert slot_entropies(uniform).item() == pytest.approx(math.log(8))
    decisive = torch.zeros(1, 8, 4)
    decisive[0, [0, 2, 4, 6], range(4)] = 1.0
    assert slot_entropies(decisive).item() == pytest.approx(0.0, abs=1e-30)
    assert slot_overlaps(decisive).item() == 0.0
    collapsed = torch.zeros(1, 8, 4)
    collapsed[0, 3] = 1.0
    assert slot_overlaps(collapsed).item() == 12.0  # every off-diagonal entry of the Gram matrix is one


def test_next_tokens_are_cut_and_reconstructions_are_not():
    belief = tokenizer()
    states = torch.randn(2, 6, 4, requires_grad=True)
    output = belief(states, torch.randn(2, 6, 5))
    assert not output.next_tokens.requires_grad
    output.reconstructions.sum().backward()
    assert states.grad is not None
    assert states.grad.abs().sum() > 0


def test_initial_tokens_learn():
    belief = tokenizer()
    belief.initial(3).sum().backward()
    torch.testing.assert_close(belief.initial_tokens.grad, torch.full((3, 5), 3.0))


def test_masked_steps_leave_gradients_finite():
    """The entropy's slope is infinite at probability zero, where masked steps are."""
    belief = tokenizer()
    states = torch.randn(2, 6, 4, requires_grad=True)
    mask = torch.tensor([[True] * 4 + [False] * 2, [True] + [False] * 5])
    output = belief(states, torch.randn(2, 6, 5), mask)
    (output.entropies.sum() + output.overlaps.sum()).backward()
    assert states.grad.isfinite().all()
    assert belief.assign.weight.grad.isfinite().all()
    assert (states.grad[~mask] == 0).all()
