"""A mixture of sources as one numbered collection of segments; asked for several, it gives a batch."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptr_robot.data.batch import UNIFIED_DIM, SegmentBatch
from ptr_robot.data.config import DataConfig
from ptr_robot.data.records import EpisodeProblem, EpisodeRecord
from ptr_robot.data.segments import SegmentLayout, SegmentPlan
from ptr_robot.data.source import Source, open_source
from ptr_robot.errors import ConfigError

logger = logging.getLogger(__name__)

MAX_PADDING_RATIO = 4  # chunks in a segment over those of the longest episode: the default is never refused


class SegmentDataset:
    """Segments of all sources, numbered source by source, episode by episode, start by start."""

    def __init__(self, config: DataConfig, seed: int = 0, instructions: Mapping[int, str] | None = None) -> None:
        if not config.sources:
            raise ConfigError("the data has no sources; give at least one, such as sources: [{repo_id: owner/name}]")
        self.config = config
        self.layout = SegmentLayout.of(config, seed)
        self.sources: tuple[Source, ...] = tuple(open_source(source, config) for source in config.sources)
        _check_num_chunks(config, max(episode.length for source in self.sources for episode in source.index.episodes))
        self.num_views = max(len(source.cameras) for source in self.sources)
        for source, problem in self.left_out:
            logger.warning("left out of %s: %s", source.config.repo_id, problem)
        self._first_sample = np.cumsum([0, *(source.index.total_frames for source in self.sources)])
        self._first_episode = np.cumsum([0, *(source.index.total_episodes for source in self.sources)])
        self._ends = [
            np.cumsum([self.layout.segments_in(episode.length) for episode in source.index.episodes])
            for source in self.sources
        ]
        self._source_ends = np.cumsum(self.counts)
        texts = [text for source in self.sources for _, text in sorted(source.index.tasks.items())]
        self._instructions = dict(instructions or {})  # in place of the recorded ones, by episode_id
        texts += self._instructions.values()
        self.task_ids: dict[str, int] = {text: number for number, text in enumerate(dict.fromkeys(texts))}

    @property
    def counts(self) -> tuple[int, ...]:
        """Segments of each source."""
        return tuple(int(ends[-1]) for ends in self._ends)

    @property
    def first_episodes(self) -> tuple[int, ...]:
        """The episode_id of each source's episode 0."""
        return tuple(int(first) for first in self._first_episode[:-1])

    @property
    def num_episodes(self) -> int:
        """How many numbers episodes have over all sources, used or not."""
        return int(self._first_episode[-1])

    @property
    def first_segments(self) -> list[int]:
        """The number of the first segment of every episode, in order."""
        starts = [0, *self._source_ends[:-1].tolist()]
        return [int(start + end) for start, ends in zip(starts, self._ends, strict=True) for end in (0, *ends[:-1])]

    def has_target(self, number: int) -> bool:
        """Whether the first chunk of a segment has a consequence."""
        source, episode, start = self.locate(number)
        first_sample = int(self._first_sample[source]) + episode.first_index
        return bool(self.layout.plan(start, episode.length, first_sample).has_target[0])

    @property
    def left_out(self) -> list[tuple[Source, EpisodeProblem]]:
        """The episodes that are not used, and why."""
        return [(source, problem) for source in self.sources for problem in source.index.left_out]

    def __len__(self) -> int:
        return sum(self.counts)

    def locate(self, number: int) -> tuple[int, EpisodeRecord, int]:
        """The source, the episode and the start frame of a segment number."""
        source = int(np.searchsorted(self._source_ends, number, side="right"))
        if number < 0 or source == len(self.sources):
            raise IndexError(f"segment {number} of {len(self)}")
        within = number - (int(self._source_ends[source - 1]) if source else 0)
        episode = int(np.searchsorted(self._ends[source], within, side="right"))
        before = int(self._ends[source][episode - 1]) if episode else 0
        return source, self.sources[source].index.episodes[episode], (within - before) * self.layout.stride

    def decode_all(self) -> None:
        """Decode every episode now, in order, rather than when it is first used."""
        for source in self.sources:
            for episode in source.index.episodes:
                for key in source.cameras:
                    if key is not None:
                        source.frames.ensure(episode, key)

    def __getitem__(self, numbers: Sequence[int]) -> SegmentBatch:
        """The segments of these numbers as one batch."""
        self._decode_what_is_free(numbers)
        return collate([self._segment(number) for number in numbers])

    def _decode_what_is_free(self, numbers: Sequence[int]) -> None:
        """Decode what no other worker decodes at this moment, before waiting for what one does."""
        needed = {(source, episode.episode_index): episode for source, episode, _ in map(self.locate, numbers)}
        for (source_id, _), episode in needed.items():
            source = self.sources[source_id]
            for key in source.cameras:
                if key is not None:
                    source.frames.ensure(episode, key, wait=False)

    def _segment(self, number: int) -> dict[str, Any]:
        """One segment as arrays without the batch dimension."""
        source_id, episode, start = self.locate(number)
        source = self.sources[source_id]
        first_sample = int(self._first_sample[source_id]) + episode.first_index
        plan = self.layout.plan(start, episode.length, first_sample)
        episode_id = int(self._first_episode[source_id]) + episode.episode_index
        recorded = source.index.tasks[self._task_index(source, episode, start)]
        task = self._instructions.get(episode_id, recorded)
        pictures, view_mask = self._pictures(source, episode, plan)
        return {
            "frames": pictures,
            "view_mask": view_mask,
            **self._vectors(source, episode, plan),
            "current_frame": plan.current_frame,
            "future_frame": plan.future_frame,
            "action_is_pad": plan.action_is_pad,
            "chunk_is_pad": plan.chunk_is_pad,
            "has_target": plan.has_target,
            "offset_steps": plan.offset_steps,
            "sample_id": np.where(plan.chunk_is_pad, -1, first_sample + plan.chunk_starts),
            "phase": (plan.state_rows / max(1, episode.length - 1)).astype(np.float32),
            "episode_id": np.int64(episode_id),
            "task_id": self.task_ids[task],
            "source_id": source_id,
            "instructions": task,
        }

    def _task_index(self, source: Source, episode: EpisodeRecord, start: int) -> int:
        return int(source.tables.task_indices[source.tables.first_frame[episode.episode_index] + start])

    def _vectors(self, source: Source, episode: EpisodeRecord, plan: SegmentPlan) -> dict[str, NDArray[Any]]:
        first = source.tables.first_frame[episode.episode_index]
        states = source.tables.states
        return {
            "states": source.state_map.to_unified(states[first + plan.state_rows]),  # (T, 200)
            "future_states": source.state_map.to_unified(states[first + plan.future_rows]),  # (T, 200)
            "state_mask": source.state_map.slots.mask,
            "actions": source.action_map.to_unified(source.tables.actions[first + plan.action_rows]),
            "action_mask": source.action_map.slots.mask,
        }

    def _pictures(
        self, source: Source, episode: EpisodeRecord, plan: SegmentPlan
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """(F, V, 3, H, W) with black where the source lacks a view, and (V,)."""
        size = self.config.image_size
        pictures = np.zeros((len(plan.frame_rows), self.num_views, 3, size, size), dtype=np.uint8)
        mask = np.zeros(self.num_views, dtype=np.bool_)
        for view, key in enumerate(source.cameras):
            if key is not None:
                pictures[:, view] = source.frames.read(episode, key, plan.frame_rows.tolist())
                mask[view] = True
        return pictures, mask


def _check_num_chunks(config: DataConfig, longest: int) -> None:
    """A segment may well be longer than an episode, but one that is nearly all padding fills the memory with it."""
    most = MAX_PADDING_RATIO * -(-longest // config.chunk_length)
    if config.num_chunks > most:
        raise ConfigError(
            f"num_chunks is {config.num_chunks}, and the longest episode has {longest} frames: segments of chunks of "
            f"{config.chunk_length} would be nearly all padding; it must be at most {most}"
        )


def collate(segments: Sequence[dict[str, Any]]) -> SegmentBatch:
    """Segments of one layout as a batch."""
    fields: dict[str, Any] = {
        name: torch.from_numpy(np.stack([segment[name] for segment in segments]))
        for name in segments[0]
        if name != "instructions"
    }
    batch = SegmentBatch(**fields, instructions=tuple(segment["instructions"] for segment in segments))
    assert batch.states.shape[-1] == UNIFIED_DIM
    return batch
