"""Screening of a run's data before its first step: which chunks are looked at, and what is seen of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.data.segments.loader import read_blocks
from ptr_robot.errors import DataError, PTRError, require
from ptr_robot.method.ptr.targets import EMATargetEncoder
from ptr_robot.method.scoring.screen import MIN_KEPT_WEIGHT, Report, Screening, ScreeningConfig, Transitions, screen
from ptr_robot.train.samples import SampleFacts, encode_frames, take_frames
from ptr_robot.train.scored_episodes import score_sources
from ptr_robot.train.step_progress import ScreeningProgress

_SEGMENTS_AT_ONCE = 64
_LEAST_CHUNKS = 4  # of an episode, however many episodes there are
_MIN_STRIDE = 4  # frames between two chunks that are looked at: neighbours say the same


def screen_once(
    dataset: SegmentDataset,
    facts: SampleFacts,
    config: ScreeningConfig,
    *,
    vision_tower: nn.Module | None,
    num_prefix_tokens: int,
    device: torch.device | str,
    num_workers: int,
    rank: int,
    world_size: int,
) -> Screening:
    """By the first of several processes, with a bar to watch; the others get what it found, or its complaint."""
    answer: list[Screening | PTRError | None] = [None]
    if rank == 0:
        try:
            with ScreeningProgress() as report:
                answer[0] = screen_dataset(
                    dataset,
                    facts,
                    config,
                    vision_tower=vision_tower,
                    num_prefix_tokens=num_prefix_tokens,
                    device=device,
                    num_workers=num_workers,
                    report=report,
                )
        except PTRError as error:
            answer[0] = error
    if world_size > 1:
        require("accelerate.utils", "lerobot").broadcast_object_list(answer)
    found = answer[0]
    assert found is not None
    if isinstance(found, PTRError):
        raise found
    return found


def screen_dataset(
    dataset: SegmentDataset,
    facts: SampleFacts,
    config: ScreeningConfig,
    *,
    vision_tower: nn.Module | None = None,  # of the policy as it starts; None: it looks at no images
    num_prefix_tokens: int = 0,
    device: torch.device | str = "cpu",  # where images are looked at; the rest is small
    num_workers: int = 0,
    report: Report | None = None,
) -> Screening:
    """Judge every episode of the run, as ``ptr score`` does or by trained heads alone."""
    encoder = None
    if vision_tower is not None:
        encoder = EMATargetEncoder(vision_tower, num_prefix_tokens=num_prefix_tokens).to(device)
    if config.scorer == "quality":
        return _keep_of_each_source(score_sources(dataset, config, encoder, report), dataset, config.keep_share)
    return _screen_by_heads(dataset, facts, config, encoder, num_workers, report)


def _screen_by_heads(
    dataset: SegmentDataset,
    facts: SampleFacts,
    config: ScreeningConfig,
    encoder: EMATargetEncoder | None,
    num_workers: int,
    report: Report | None,
) -> Screening:
    """By the first chunks of segments that are spread evenly over every episode."""
    numbers = _numbers(dataset, config.max_chunks)
    blocks = [numbers[first : first + _SEGMENTS_AT_ONCE] for first in range(0, len(numbers), _SEGMENTS_AT_ONCE)]
    parts = []
    for done, batch in enumerate(read_blocks(dataset, blocks, num_workers), start=1):
        parts.append(_transitions(batch, facts, encoder))
        if report is not None:
            report("screening: reading", done / len(blocks))
    states, looks, moved, looked, actions, tasks, episodes = (torch.cat(part) for part in zip(*parts, strict=True))
    if len(episodes) < 2:
        raise DataError(
            "screening found no chunk with a consequence: every episode is shorter than a chunk; lower "
            "--policy.chunk_length or --dataset.offset_steps"
        )
    changes = _alike(moved, looked)
    found = screen(Transitions(torch.cat([states, looks], dim=1), changes, actions, tasks, episodes), config, report)
    return _keep_of_each_source(found, dataset, config.keep_share)


def _alike(moved: Tensor, looked: Tensor) -> Tensor:  # (N, Dm), (N, Dl) -> (N, Dm + Dl)
    """What moved and what looks different, both counting alike whatever their units; one that rests is no measure."""
    size, other = (part.square().sum(dim=1).mean().sqrt() for part in (moved, looked))
    scale = size / other if size > 0 and other > 0 else 1.0
    return torch.cat([moved, scale * looked], dim=1)


def _keep_of_each_source(found: Screening, dataset: SegmentDataset, share: float) -> Screening:
    """The best ``share`` of a source that would be left out whole: its place in every batch cannot stay empty."""
    weights = found.weights.clone()
    for first, end in itertools.pairwise([*dataset.first_episodes, dataset.num_episodes]):
        rows = ((found.episode_ids >= first) & (found.episode_ids < end)).nonzero().squeeze(1)
        if len(rows) and not weights[rows].any():
            best = rows[found.z_scores[rows].argsort(descending=True, stable=True)]
            weights[best[: math.ceil(share * len(rows))]] = MIN_KEPT_WEIGHT
    return replace(found, weights=weights)


def _numbers(dataset: SegmentDataset, max_chunks: int) -> list[int]:
    """Segments at equal distances, about ``max_chunks`` of them.

    Of every episode that these miss comes the first with a consequence.
    Of a dataset with so many episodes that each would have next to none, every one has a few, spread over it.
    """
    densest = max(1, _MIN_STRIDE // dataset.config.stride)
    stride = max(densest, -(-len(dataset) // max_chunks))
    added: set[int] = set()
    for first, end in itertools.pairwise([*dataset.first_segments, len(dataset)]):
        nearest = -(-first // stride) * stride
        if nearest >= end or not dataset.has_target(nearest):
            added.update(itertools.islice(filter(dataset.has_target, range(first, end)), 1))
        if stride > densest and (end - nearest) < _LEAST_CHUNKS * stride:
            added.update(range(first, end, max(densest, -(-(end - first) // _LEAST_CHUNKS))))
    return sorted({*range(0, len(dataset), stride), *added})


def _transitions(batch: SegmentBatch, facts: SampleFacts, encoder: EMATargetEncoder | None) -> tuple[Tensor, ...]:
    """State, looks, their changes, recorded chunk, task and episode, of the first chunks that have a consequence."""
    states, moved = batch.states[:, 0], batch.future_states[:, 0] - batch.states[:, 0]
    looks = looked = states[:, :0]
    if encoder is not None:
        looks = _encode(encoder, batch, batch.current_frame[:, :1])
        looked = _encode(encoder, batch, batch.future_frame[:, :1]) - looks
    actions = facts.action_targets(batch).view(batch.batch_size, batch.num_chunks, -1)[:, 0]
    keep = batch.has_target[:, 0]
    parts = (states, looks, moved, looked, actions, batch.task_id, batch.episode_id)
    return tuple(part[keep] for part in parts)


@torch.no_grad()
def _encode(encoder: EMATargetEncoder, batch: SegmentBatch, index: Tensor) -> Tensor:  # (B, 1) -> (B, Dy)
    device = next(encoder.parameters()).device
    frames = take_frames(batch.frames, index)[:, 0].to(device)
    return encode_frames(encoder, frames, batch.view_mask.to(device)).cpu()
