"""A batch of ``lerobot-train`` taken apart: what the policy may see, what came of it, and whose sample it is.

The dataset gives every observation key a time axis: the policy's own history, then one frame every Δ frames up to the
last chunk's consequence. Base policies read such an axis as history, some its last entry, so each frame is cut out
before a policy sees it.

    frames   -1   0        Δ        2Δ         history of two, two chunks
    policy    |---|                            chunk 0
                           |                   chunk 1
    target                 |        |          of chunk 0, of chunk 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ptr_robot.errors import ConfigError, DataError, ShapeError, did_you_mean

Batch = dict[str, Any]

ACTION = "action"
ACTION_IS_PAD = "action_is_pad"
IS_PAD = "_is_pad"
OBSERVATION = "observation."


@dataclass(frozen=True)
class Layout:
    """Which frames a sample holds; ``dims`` are the dimensions of each observation without batch and time."""

    dims: Mapping[str, int]
    optional: frozenset[str]  # cameras that a batch may lack
    has_time_axis: bool  # whether the base policy takes a history with a time axis
    num_history: int  # frames up to the present
    num_chunks: int  # T
    offset_steps: int  # Δ
    chunk_length: int  # L

    @property
    def num_frames(self) -> int:
        """Entries of the time axis."""
        return self.num_history + self.num_chunks


@dataclass(frozen=True)
class Window:
    """``T`` consecutive chunks of ``B`` samples."""

    chunks: tuple[Batch, ...]  # T batches as the base policy takes them
    frames: tuple[Batch, ...]  # T + 1 observations without a time axis; only targets are made of the last
    has_target: Tensor  # (B, T) bool
    chunk_is_pad: Tensor  # (B, T) bool: chunks past the episode's end

    @staticmethod
    def of(batch: Batch, layout: Layout) -> Window:
        """Cut a training batch into its frames and chunks."""
        keys = _timed_keys(batch, layout)
        padding = _frame_padding(batch, layout)  # (B, frames)
        present = layout.num_history - 1
        numbers = range(present, layout.num_frames)
        action_padding = torch.stack([_actions(batch, ACTION_IS_PAD, layout, k) for k in range(layout.num_chunks)], 1)
        return Window(
            chunks=tuple(_chunk(batch, keys, layout, number) for number in range(layout.num_chunks)),
            frames=tuple({key: batch[key][:, number] for key in keys} for number in numbers),
            has_target=~padding[:, layout.num_history :],
            chunk_is_pad=action_padding.all(dim=2),
        )


def _chunk(batch: Batch, keys: list[str], layout: Layout, number: int) -> Batch:
    """The batch that the base policy would have got at chunk ``number``."""
    chunk = dict(batch)
    for key in keys:
        history = batch[key][:, number : number + layout.num_history]
        chunk[key] = history if layout.has_time_axis else history[:, -1]
    chunk[ACTION] = _actions(batch, ACTION, layout, number)
    chunk[ACTION_IS_PAD] = _actions(batch, ACTION_IS_PAD, layout, number)
    return chunk


def _actions(batch: Batch, key: str, layout: Layout, number: int) -> Tensor:  # (B, L, ...)
    if key not in batch:
        raise DataError(f"the batch has no {key!r}; PTR learns from recorded chunks with a mask of their padding")
    start = number * layout.offset_steps
    values: Tensor = batch[key][:, start : start + layout.chunk_length]
    if values.shape[1] != layout.chunk_length:
        raise ShapeError(
            f"{key} has {batch[key].shape[1]} steps; {layout.num_chunks} chunks of {layout.chunk_length} steps, "
            f"{layout.offset_steps} apart, need {start + layout.chunk_length}"
        )
    return values


def _timed_keys(batch: Batch, layout: Layout) -> list[str]:
    keys = []
    for key, dims in layout.dims.items():
        if key not in batch:
            if key in layout.optional:
                continue
            seen = sorted(name for name in batch if name.startswith(OBSERVATION) and not name.endswith(IS_PAD))
            raise DataError(f"the batch has no {key!r}, which the policy looks at; {did_you_mean(key, seen)}")
        if batch[key].dim() != dims + 2 or batch[key].shape[1] != layout.num_frames:
            raise ShapeError(
                f"{key} has shape {tuple(batch[key].shape)}; PTR needs {layout.num_frames} frames of each sample, the "
                f"last of them {layout.offset_steps} frames ahead: train on a dataset through lerobot-train"
            )
        keys.append(key)
    return keys


def _frame_padding(batch: Batch, layout: Layout) -> Tensor:  # (B, frames) bool
    """Which frames lie outside the episode; all observations of a sample share their times."""
    for key, values in batch.items():
        if key.startswith(OBSERVATION) and key.endswith(IS_PAD):
            if values.shape[1:] != (layout.num_frames,):
                raise ShapeError(f"{key} has shape {tuple(values.shape)}; expected (batch, {layout.num_frames})")
            padding: Tensor = values.bool()
            return padding
    raise ConfigError(
        "the batch does not say which frames lie past the end of their episode (observation.*_is_pad); a processor "
        "must have dropped it, and without it PTR would take the last frame for a consequence"
    )
