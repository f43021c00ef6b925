"""Padding chunks count nowhere: neither their steps, nor their values, nor their targets."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ptr_robot.method.types import ChunkForward, Samples


def real_steps(action_is_pad: Tensor | None, chunk_is_pad: Tensor | None) -> Tensor | None:  # (N, L)
    """The steps to look at; padding chunks count nowhere and keep all of theirs, so that nothing divides by zero."""
    if action_is_pad is None:
        return None
    return ~action_is_pad if chunk_is_pad is None else ~action_is_pad | chunk_is_pad.unsqueeze(1)


def without_padding_values(chunk: ChunkForward, chunk_is_pad: Tensor | None) -> ChunkForward:
    """Zero in the rows that count nowhere: what a policy makes of padding may be anything, and 0 × NaN is NaN."""
    if chunk_is_pad is None:
        return chunk
    states = chunk.action_states
    return replace(
        chunk,
        action_losses=without_padding_rows(chunk.action_losses, chunk_is_pad),
        contexts=without_padding_rows(chunk.contexts, chunk_is_pad),
        action_tokens=without_padding_rows(chunk.action_tokens, chunk_is_pad),
        action_states=None if states is None else without_padding_rows(states, chunk_is_pad),
    )


def without_padding_rows(values: Tensor, chunk_is_pad: Tensor | None) -> Tensor:  # (N, ...), (N,)
    """Zero in the rows that are padding."""
    return values if chunk_is_pad is None else values.masked_fill(chunk_is_pad.view(-1, *[1] * (values.dim() - 1)), 0.0)


def without_padding_targets(samples: Samples) -> Samples:
    """The same samples, of which padding has no target."""
    if samples.chunk_is_pad is None:
        return samples
    return replace(samples, has_target=samples.has_target & ~samples.chunk_is_pad)
