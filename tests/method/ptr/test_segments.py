"""Segments: the belief goes from chunk to chunk as a constant, and everything else is the flat call."""

from __future__ import annotations

from dataclasses import replace

import torch

from ptr_robot.method import Samples
from tests.method.conftest import LENGTH, STATE_DIM, TARGET_DIM, make_batch, make_ptr


def test_segment_runs_the_belief_recursion_and_equals_the_flat_call():
    """Algorithm 1: each chunk's belief comes from the chunk before, without its gradient."""
    ptr = make_ptr()
    seen = []

    def chunk_step(index, belief):
        seen.append(belief)
        chunk, _ = make_batch(4, seed=index)
        return replace(chunk, contexts=chunk.contexts + belief.mean())

    flat = [make_batch(4, seed=t)[1] for t in range(3)]
    samples = Samples(
        targets=torch.stack([s.targets for s in flat], 1).flatten(0, 1),
        has_target=torch.ones(12, dtype=torch.bool),
        sample_ids=torch.arange(12),
        states=torch.zeros(12, STATE_DIM),
    )
    output = ptr.segment(chunk_step, samples, num_chunks=3)
    torch.testing.assert_close(seen[0], ptr.belief.initial_tokens.expand(4, -1, -1))
    for index in (1, 2):
        chunk, _ = make_batch(4, seed=index - 1)
        expected = ptr.belief(chunk.action_states, chunk.action_tokens).next_tokens
        torch.testing.assert_close(seen[index], expected)
        assert not seen[index].requires_grad
    assert output.weights.shape == (12,)
    # Sample (b, t) of the flat output is chunk t of segment b.
    losses = torch.stack([make_batch(4, seed=t)[0].action_losses for t in range(3)], 1).flatten()
    torch.testing.assert_close(output.action_loss, (output.weights * losses).sum() / output.weights.sum())


def test_under_autocast_carrying_the_belief_on_costs_no_gradient():
    """A cast that is made without gradients must not be kept for the pass that trains."""
    ptr = make_ptr()
    samples = Samples(
        targets=torch.randn(12, TARGET_DIM, generator=torch.Generator().manual_seed(5)),
        has_target=torch.ones(12, dtype=torch.bool),
        sample_ids=torch.arange(12),
        states=torch.zeros(12, STATE_DIM),
    )

    def chunk_step(index, belief):
        chunk, _ = make_batch(4, seed=index)
        return replace(chunk, contexts=chunk.contexts + belief.mean())

    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = ptr.segment(chunk_step, samples, num_chunks=3).loss
    loss.backward()
    learns = {name: value.grad is not None for name, value in ptr.belief.named_parameters()}
    assert learns
    assert all(learns.values()), learns


def test_a_segment_that_ends_early_leaves_no_nan():
    """The last chunks of the second segment lie past its episode's end: every step of theirs is masked."""
    ptr = make_ptr()
    padding = torch.tensor([[False, False, False], [False, True, True]])

    def chunk_step(index, belief):
        chunk, _ = make_batch(2, seed=index, grad=True)
        action_is_pad = padding[:, index].unsqueeze(1).expand(2, LENGTH)
        contexts = chunk.contexts + belief.mean(dim=(1, 2)).unsqueeze(1)
        return replace(chunk, contexts=contexts, action_is_pad=action_is_pad)

    samples = Samples(
        targets=make_batch(6)[1].targets,
        has_target=torch.ones(6, dtype=torch.bool),
        sample_ids=torch.arange(6),
        chunk_is_pad=padding.flatten(),
        states=torch.zeros(6, STATE_DIM),
    )
    output = ptr.segment(chunk_step, samples, num_chunks=3)
    output.loss.backward()
    assert output.loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in ptr.parameters() if parameter.grad is not None)
    assert output.weights.view(2, 3)[padding].eq(0).all()
    assert output.sample_count == 4
