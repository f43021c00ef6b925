"""From a batch of segments to what PTR is told about each chunk: its consequence, identity, task and state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ptr_robot.data.segments.batch import UNIFIED_DIM, SegmentBatch
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.method.ptr.algorithm import PTR
from ptr_robot.method.types import Samples

Encoder = Callable[[Tensor], Tensor]  # (..., V, 3, H, W) -> (..., Dy)


@dataclass(frozen=True)
class SampleFacts:
    """What a run knows about its samples beyond a batch."""

    action_slots: Tensor  # (A,) int64: the slots that any robot of the run acts by
    episode_weights: Tensor | None = None  # (episodes,) factors that were decided before the first step

    @staticmethod
    def of(dataset: SegmentDataset, episode_weights: Tensor | None = None) -> SampleFacts:
        """Those of a dataset."""
        masks = [source.action_map.slots.mask for source in dataset.sources]
        return SampleFacts(torch.from_numpy(np.flatnonzero(np.any(masks, axis=0))), episode_weights)

    def action_targets(self, batch: SegmentBatch) -> Tensor:  # (B T, L A)
        """The recorded chunks, zero where padded."""
        is_real = ~batch.action_is_pad.unsqueeze(-1)
        slots = self.action_slots.to(batch.actions.device)
        return (batch.actions[..., slots] * is_real).flatten(2).flatten(0, 1)


def make_samples(ptr: PTR, batch: SegmentBatch, facts: SampleFacts | None = None) -> Samples:
    """The ``B x T`` chunks of a batch as one flat list in (B, T) order."""
    num_chunks = batch.num_chunks
    episode_ids = batch.episode_id.repeat_interleave(num_chunks)
    weights = facts.episode_weights if facts else None
    return Samples(
        targets=segment_targets(ptr, batch).flatten(0, 1),
        has_target=batch.has_target.flatten(),
        sample_ids=batch.sample_id.flatten(),
        episode_ids=episode_ids,
        task_ids=batch.task_id.repeat_interleave(num_chunks),
        states=batch.states.flatten(0, 1),
        source_ids=batch.source_id.repeat_interleave(num_chunks),
        offsets=relative_offsets(batch).flatten(),
        chunk_is_pad=batch.chunk_is_pad.flatten(),
        action_targets=facts.action_targets(batch) if facts and ptr.widths.action_target else None,
        prior_weights=None if weights is None else weights.to(episode_ids.device)[episode_ids],
    )


def relative_offsets(batch: SegmentBatch) -> Tensor:  # (B, T)
    """Δ' = max(0, Δ/L − 1): zero for a consequence at the chunk's end, one for a chunk later."""
    chunk_length = batch.actions.shape[2]
    return (batch.offset_steps / chunk_length - 1).clamp_min(0)


@torch.no_grad()  # a consequence is a constant: nothing may learn to be easy to predict
def segment_targets(ptr: PTR, batch: SegmentBatch) -> Tensor:  # (B, T, Dy)
    """The consequences of all chunks: from images where PTR has a target encoder, otherwise from states.

    States are the normalised slots, zero where the robot has none, so every robot has the same width. Without a scorer
    nothing looks at targets, and nothing is encoded.
    """
    if ptr.scorer is None:
        return batch.states.new_zeros(batch.batch_size, batch.num_chunks, ptr.widths.target)
    if ptr.target_encoder is None:
        return ptr.make_targets(batch.future_states, batch.states)
    features = encode_needed(ptr, batch)  # (B, F, Dy)
    return ptr.make_targets(take_frames(features, batch.future_frame), take_frames(features, batch.current_frame))


def encode_needed(ptr: PTR, batch: SegmentBatch) -> Tensor:  # (B, F, Dy)
    """Each frame that a target is made of, encoded once; zero for the others.

    Neighbouring chunks share frames, and the paper's targets do not look at the present.
    """
    needed = torch.zeros(batch.frames.shape[:2], dtype=torch.bool, device=batch.frames.device)  # (B, F)
    segments, chunks = batch.has_target.nonzero(as_tuple=True)
    needed[segments, batch.future_frame[segments, chunks]] = True
    if ptr.config.targets.kind == "change":
        needed[segments, batch.current_frame[segments, chunks]] = True
    if not len(segments):
        needed[0, 0] = True  # every process of a sharded run takes part in gathering the encoder
    features = torch.zeros(*needed.shape, ptr.widths.target, device=needed.device)
    rows = needed.nonzero(as_tuple=True)[0]
    features[needed] = encode_frames(ptr.encode, batch.frames[needed], batch.view_mask[rows])
    return features


def encode_frames(encode: Encoder, frames: Tensor, view_mask: Tensor) -> Tensor:  # (n, V, 3, H, W), (n, V) -> (n, Dy)
    """The mean over the views that a source has; black stand-ins for missing views do not count."""
    features = encode(frames.unsqueeze(2))  # (n, V, Dy): each view as if it were alone
    shares = view_mask / view_mask.sum(dim=1, keepdim=True).clamp_min(1)  # (n, V)
    return (features * shares.unsqueeze(2)).sum(dim=1)


def take_frames(values: Tensor, index: Tensor) -> Tensor:  # (B, F, ...), (B, T) -> (B, T, ...)
    """The frames that ``index`` points at."""
    rows = torch.arange(values.shape[0], device=values.device).unsqueeze(1)
    return values[rows, index]


def target_width(target_encoder: torch.nn.Module | None) -> int:
    """Dy: the width of the encoder's features, or of the unified state."""
    if target_encoder is None:
        return UNIFIED_DIM
    device = next(target_encoder.parameters()).device
    black = torch.zeros(1, 1, 3, 32, 32, dtype=torch.uint8, device=device)
    return int(target_encoder(black).shape[-1])
