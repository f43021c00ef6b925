"""Padding chunks count nowhere: neither their steps, nor their values, nor their targets."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ptr_robot.method.types import ChunkForward, Samples


def real_steps(step_mask: Tensor | None, is_padding: Tensor | None) -> Tensor | None:  # (N, L)
    """The steps to look at; padding chunks count nowhere and keep all of theirs, so that nothing divides by zero."""
    if step_mask is None or is_padding is None:
        return step_mask
    return step_mask | is_padding.unsqueeze(1)


def without_padding_values(chunk: ChunkForward, is_padding: Tensor | None) -> ChunkForward:
    """Zero in the rows that count nowhere: what a policy makes of padding may be anything, and 0 × NaN is NaN."""
    if is_padding is None:
        return chunk
    states = chunk.action_states
    return replace(
        chunk,
        action_losses=without_padding_rows(chunk.action_losses, is_padding),
        contexts=without_padding_rows(chunk.contexts, is_padding),
        action_tokens=without_padding_rows(chunk.action_tokens, is_padding),
        action_states=None if states is None else without_padding_rows(states, is_padding),
    )


def without_padding_rows(values: Tensor, is_padding: Tensor | None) -> Tensor:  # (N, ...), (N,)
    """Zero in the rows that are padding."""
    return values if is_padding is None else values.masked_fill(is_padding.view(-1, *[1] * (values.dim() - 1)), 0.0)


def without_padding_targets(samples: Samples) -> Samples:
    """The same samples, of which padding has no target."""
    if samples.is_padding is None:
        return samples
    return replace(samples, has_target=samples.has_target & ~samples.is_padding)
