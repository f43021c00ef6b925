"""Which frames a segment takes: T consecutive chunks of L actions, their futures, and what is padding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.config import DataConfig


@dataclass(frozen=True)
class SegmentPlan:
    """The frames of some segments, counted from the start of each one's episode; what lies past the end is clamped.

    Of one segment the arrays have no B.
    """

    chunk_starts: NDArray[np.int64]  # (B, T) not clamped
    action_rows: NDArray[np.int64]  # (B, T, L)
    action_is_pad: NDArray[np.bool_]  # (B, T, L)
    chunk_is_pad: NDArray[np.bool_]  # (B, T)
    offset_steps: NDArray[np.int64]  # (B, T)
    has_target: NDArray[np.bool_]  # (B, T)
    state_rows: NDArray[np.int64]  # (B, T)
    future_rows: NDArray[np.int64]  # (B, T) the current row where there is no target
    frame_rows: NDArray[np.int64]  # (B, F)
    current_frame: NDArray[np.int64]  # (B, T) into F
    future_frame: NDArray[np.int64]  # (B, T) into F


@dataclass(frozen=True)
class SegmentLayout:
    """How episodes are cut; the same for every source, so that segments fit into one batch."""

    chunk_length: int  # L
    num_chunks: int  # T
    stride: int
    offset_range: tuple[int, int]  # Δ, both ends included
    seed: int = 0  # of the drawn offsets

    @staticmethod
    def of(config: DataConfig, seed: int = 0) -> SegmentLayout:
        """The layout that the settings ask for."""
        return SegmentLayout(config.chunk_length, config.num_chunks, config.stride, config.offset_range, seed)

    @property
    def shares_frames(self) -> bool:
        """Whether a chunk's future is the next chunk's present, so that T chunks need T + 1 frames."""
        return self.offset_range == (self.chunk_length, self.chunk_length)

    @property
    def num_frames(self) -> int:
        """F: frames in a segment."""
        return self.num_chunks + 1 if self.shares_frames else 2 * self.num_chunks

    def segments_in(self, length: int) -> int:
        """Segments of an episode: one at every ``stride``-th frame, however close to its end."""
        return -(-length // self.stride)

    def plan(
        self,
        start: int | NDArray[np.int64],  # (B,) or one
        length: int | NDArray[np.int64],  # (B,) or one
        first_sample_id: int | NDArray[np.int64],  # (B,) or one
    ) -> SegmentPlan:
        """The segments that start at these frames of episodes of these lengths, whose first frames have these ids."""
        starts, lengths, first_ids = (np.asarray(value)[..., None] for value in (start, length, first_sample_id))
        chunk_starts = starts + self.chunk_length * np.arange(self.num_chunks)  # (B, T)
        steps = chunk_starts[..., None] + np.arange(self.chunk_length)  # (B, T, L)
        offsets = self._offsets(first_ids + chunk_starts)  # (B, T)
        has_target = chunk_starts + offsets < lengths
        state_rows = np.minimum(chunk_starts, lengths - 1)
        future_rows = np.where(has_target, chunk_starts + offsets, state_rows)
        chunks = np.arange(self.num_chunks)
        futures = chunks + (1 if self.shares_frames else self.num_chunks)
        following = chunk_starts[..., -1:] + self.chunk_length if self.shares_frames else future_rows
        return SegmentPlan(
            chunk_starts=chunk_starts,
            action_rows=np.minimum(steps, lengths[..., None] - 1),
            action_is_pad=steps >= lengths[..., None],
            chunk_is_pad=chunk_starts >= lengths,
            offset_steps=offsets,
            has_target=has_target,
            state_rows=state_rows,
            future_rows=future_rows,
            frame_rows=np.minimum(np.concatenate([state_rows, following], axis=-1), lengths - 1),
            current_frame=np.broadcast_to(chunks, chunk_starts.shape).copy(),
            future_frame=np.where(has_target, futures, chunks),
        )

    def _offsets(self, sample_ids: NDArray[np.int64]) -> NDArray[np.int64]:  # (B, T) -> (B, T)
        """Δ of each chunk: fixed, or drawn from the sample's identity alone, hence the same in every epoch."""
        low, high = self.offset_range
        if low == high:
            return np.full(sample_ids.shape, low, dtype=np.int64)
        draws = [np.random.default_rng((self.seed, int(i))).integers(low, high + 1) for i in sample_ids.flat]
        return np.array(draws, dtype=np.int64).reshape(sample_ids.shape)
