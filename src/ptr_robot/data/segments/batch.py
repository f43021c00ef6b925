"""The one value that leaves ``data``: a batch of segments, in the unified 200-D space."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ptr_robot.data.robots.slots import UNIFIED_DIM as UNIFIED_DIM


@dataclass(frozen=True)
class SegmentBatch:
    """``B`` segments of ``T`` consecutive chunks of ``L`` actions; letters: V views, F distinct frames.

    A segment needs each chunk's current frame and its future frame. With an offset of one chunk these are
    ``T + 1`` distinct frames, and each is stored (and decoded) once: ``current_frame`` and ``future_frame``
    point into ``frames``. The future frame is a training target only; a policy must never be given it as an
    input.
    """

    frames: Tensor  # (B, F, V, 3, H, W) uint8; V = 0 for state-only data
    view_mask: Tensor  # (B, V) bool: False where a source lacks that view
    current_frame: Tensor  # (B, T) int64, into F
    future_frame: Tensor  # (B, T) int64, into F; points at the current frame where has_target is False
    states: Tensor  # (B, T, 200) float32, normalised, zero where state_mask is False
    future_states: Tensor  # (B, T, 200) float32, as states; equals states where has_target is False
    state_mask: Tensor  # (B, 200) bool
    actions: Tensor  # (B, T, L, 200) float32, normalised, zero where action_mask is False
    action_mask: Tensor  # (B, 200) bool
    action_is_pad: Tensor  # (B, T, L) bool: True past the end of the episode
    has_target: Tensor  # (B, T) bool: the future frame lies within the episode
    offset_steps: Tensor  # (B, T) int64: Δ of each chunk
    sample_id: Tensor  # (B, T) int64: global frame index of the chunk's start, unique over all sources; -1 in padding
    episode_id: Tensor  # (B,) int64, unique over all sources
    task_id: Tensor  # (B,) int64, unique over all sources; equal instructions share one id
    source_id: Tensor  # (B,) int64
    instructions: tuple[str, ...]  # B of them

    @property
    def batch_size(self) -> int:
        """B."""
        return self.states.shape[0]

    @property
    def num_chunks(self) -> int:
        """T."""
        return self.states.shape[1]

    @property
    def chunk_is_pad(self) -> Tensor:  # (B, T)
        """True where the whole chunk lies past the end of the episode."""
        return self.action_is_pad.all(dim=2)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> SegmentBatch:
        """The same batch on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> SegmentBatch:
        """The same batch in page-locked memory; torch's DataLoader calls this."""
        return self._map(lambda tensor: tensor.pin_memory())

    def _map(self, function: Callable[[Tensor], Tensor]) -> SegmentBatch:
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        changed = {name: function(value) for name, value in values.items() if isinstance(value, Tensor)}
        return SegmentBatch(**(values | changed))
