"""Screening of a run's data before its first step: which chunks are looked at, and what is seen of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ptr_robot.data.config import SourceConfig
from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.data.segments.loader import read_blocks
from ptr_robot.errors import ConfigError, DataError, PTRError, require
from ptr_robot.method.ptr.targets import EMATargetEncoder
from ptr_robot.method.scoring.screen import MIN_KEPT_WEIGHT, Report, Screening, ScreeningConfig, Transitions, screen
from ptr_robot.train.samples import SampleFacts, encode_frames, take_frames
from ptr_robot.train.step_progress import ScreeningProgress
from ptr_robot.train.tensor_files import read_tensors, save_tensors

SCREENING_FILE = "screening.safetensors"
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
    device: torch.device,
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
    """Judge every episode of the run by the first chunks of segments that are spread evenly over it."""
    encoder = None
    if vision_tower is not None:
        encoder = EMATargetEncoder(vision_tower, num_prefix_tokens=num_prefix_tokens).to(device)
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


def write_screening(screening: Screening, folder: Path) -> None:
    """For a run that is resumed: it goes on with the episodes it began with, whatever screening would find now."""
    save_tensors({field.name: getattr(screening, field.name) for field in fields(screening)}, folder / SCREENING_FILE)


def read_screening(folder: Path) -> Screening | None:
    """None where the run has not kept it."""
    file = folder / SCREENING_FILE
    if not file.is_file():
        return None
    tensors, names = read_tensors(file), {field.name for field in fields(Screening)}
    if tensors.keys() != names:
        raise DataError(f"{file} is not a record of screening; resume from another checkpoint")
    return Screening(**tensors)


def check_screened(screening: Screening, dataset: SegmentDataset) -> None:
    """Refuse what was found of other data: a resumed run must have the episodes and instructions it began with."""
    episodes = {
        int(first) + episode.episode_index
        for source, first in zip(dataset.sources, dataset.first_episodes, strict=True)
        for episode in source.index.episodes
    }
    is_known = set(screening.episode_ids.tolist()) <= episodes
    if not is_known or int(screening.instructions.max()) >= len(dataset.task_ids):
        raise ConfigError(
            f"cannot resume the data: screening judged {len(screening.episode_ids)} episodes, not all of which are "
            "there now; give the dataset and the episodes that the run began with"
        )


def kept_sources(dataset: SegmentDataset, weights: Tensor, sources: Sequence[SourceConfig]) -> list[SourceConfig]:
    """The sources without the episodes that weigh nothing.

    Leaving them out and weighing them by zero have the same expectation, but batches without them are full.
    """
    kept, first = [], 0
    for source, config in zip(dataset.sources, sources, strict=True):
        numbers = [episode.episode_index for episode in source.index.episodes]
        chosen = [number for number in numbers if weights[first + number] > 0]
        if not chosen:
            raise DataError(
                f"{config.repo_id}: the episodes that screening keeps all weigh nothing by dataset.episode_weights; "
                "give one of them a weight, or add --method=sft"
            )
        kept.append(replace(config, episodes=chosen))
        first += source.index.total_episodes
    return kept


def corrected_instructions(dataset: SegmentDataset, screening: Screening) -> dict[int, str]:
    """The episodes that get another instruction than they came with, by episode_id."""
    texts = {number: text for text, number in dataset.task_ids.items()}
    found = (screening.episode_ids, screening.instructions, screening.is_corrected)
    rows = zip(*(column.tolist() for column in found), strict=True)
    return {episode: texts[task] for episode, task, is_corrected in rows if is_corrected}


def episode_weights(screening: Screening, num_episodes: int) -> Tensor:  # (episodes,)
    """A weight for every number of an episode; one for those too short to be judged."""
    weights = torch.ones(num_episodes)
    weights[screening.episode_ids] = screening.weights
    return weights


def describe_screening(screening: Screening, dataset: SegmentDataset) -> str:
    """One line: how many episodes are kept, and which are not, as far as they fit."""
    names = _episode_names(dataset)
    left_out, corrected = (
        [names[number] for number in screening.episode_ids[chosen].tolist()]
        for chosen in (screening.weights == 0, screening.is_corrected)
    )
    count = len(screening.episode_ids)
    unjudged = sorted(names.keys() - set(screening.episode_ids.tolist()))
    rest = f"; too short to be judged, and kept: {_listed([names[number] for number in unjudged])}" if unjudged else ""
    return (
        f"screened {count} episodes: {count - len(left_out)} are kept, {_listed(left_out)} left out, "
        f"{_listed(corrected)} given another instruction{rest}"
    )


def _episode_names(dataset: SegmentDataset) -> dict[int, str]:
    """Each episode by its number, after the name of its dataset where there are several."""
    full = [source.config.repo_id for source in dataset.sources]
    short = [Path(name).name for name in full]
    unique = short if len(set(short)) == len(short) else full
    places = [f"{name}:" for name in unique] if len(full) > 1 else [""]
    return {
        first + episode.episode_index: f"{place}{episode.episode_index}"
        for source, first, place in zip(dataset.sources, dataset.first_episodes, places, strict=True)
        for episode in source.index.episodes
    }


def _listed(names: Sequence[str], most: int = 8) -> str:
    """How many, and the first of them: `2 (0, 19)`."""
    shown = [*names[:most], *(["..."] if len(names) > most else [])]
    return f"{len(names)} ({', '.join(shown)})" if names else "0"


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
