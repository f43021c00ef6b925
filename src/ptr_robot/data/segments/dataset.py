"""A mixture of sources as one numbered collection of segments; asked for several, it gives a batch."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ptr_robot.data.config import DataConfig
from ptr_robot.data.lerobot.contents import EpisodeProblem, EpisodeRecord
from ptr_robot.data.segments.batch import UNIFIED_DIM, SegmentBatch
from ptr_robot.data.segments.cutting import SegmentLayout, SegmentPlan
from ptr_robot.data.segments.numbering import Places, SegmentNumbering
from ptr_robot.data.segments.source import Source, open_source
from ptr_robot.errors import ConfigError

logger = logging.getLogger(__name__)

MAX_PADDING_RATIO = 4  # chunks in a segment over those of the longest episode: the default is never refused


class SegmentDataset:
    """Segments of all sources; those of a batch are planned, read and normalised together."""

    def __init__(
        self,
        config: DataConfig,
        seed: int = 0,
        instructions: Mapping[int, str] | None = None,  # in place of the recorded ones, by episode_id
        episode_weights: NDArray[np.float64] | None = None,  # (episodes,) that the normalisers' statistics follow
        opened: Sequence[Source] | None = None,  # the config's sources, where they are open already
    ) -> None:
        if not config.sources:
            raise ConfigError("the data has no sources; give at least one, such as sources: [{repo_id: owner/name}]")
        self.config = config
        self.layout = SegmentLayout.of(config, seed)
        self.sources: tuple[Source, ...] = tuple(opened or _open_sources(config, episode_weights))
        _check_num_chunks(config, max(episode.length for source in self.sources for episode in source.index.episodes))
        self.num_views = max(len(source.cameras) for source in self.sources)
        for source, problem in self.left_out:
            logger.warning("left out of %s: %s", source.config.repo_id, problem)
        self._numbering = SegmentNumbering(self.sources, self.layout)
        texts = [text for source in self.sources for _, text in sorted(source.index.tasks.items())]
        self._instructions = dict(instructions or {})
        texts += self._instructions.values()
        self.task_ids: dict[str, int] = {text: number for number, text in enumerate(dict.fromkeys(texts))}

    def restricted(
        self,
        kept: Sequence[Collection[int]] | None,
        instructions: Mapping[int, str],
        episode_weights: NDArray[np.float64] | None = None,  # (episodes,) that the normalisers' statistics follow
    ) -> SegmentDataset:
        """Of each source the episodes with these indices, and some of them with other instructions.

        Nothing is checked again, and episodes and samples keep their numbers.
        """
        sources = self.sources
        if kept is not None or episode_weights is not None:
            chosen = kept or [[episode.episode_index for episode in source.index.episodes] for source in sources]
            places = zip(sources, chosen, self.first_episodes, strict=True)
            sources = tuple(
                source.restricted(episodes, None if episode_weights is None else episode_weights[first:])
                for source, episodes, first in places
            )
        config = dataclasses.replace(self.config, sources=[source.config for source in sources])
        return SegmentDataset(config, self.layout.seed, instructions, opened=sources)

    @property
    def counts(self) -> tuple[int, ...]:
        """Segments of each source."""
        return self._numbering.counts

    @property
    def first_episodes(self) -> tuple[int, ...]:
        """The episode_id of each source's episode 0."""
        return tuple(int(first) for first in self._numbering.first_episodes[:-1])

    @property
    def num_episodes(self) -> int:
        """How many numbers episodes have over all sources, used or not."""
        return int(self._numbering.first_episodes[-1])

    @property
    def first_segments(self) -> list[int]:
        """The number of the first segment of every episode, in order."""
        return self._numbering.first_segments

    def has_target(self, number: int) -> bool:
        """Whether the first chunk of a segment has a consequence."""
        return bool(self._plan(self._numbering.locate([number])).has_target[0, 0])

    def segment_weights(self, episode_weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """By each segment's episode: (episodes,) -> (segments,)."""
        return self._numbering.spread(episode_weights)

    @property
    def left_out(self) -> list[tuple[Source, EpisodeProblem]]:
        """The episodes that are not used, and why."""
        return [(source, problem) for source in self.sources for problem in source.index.left_out]

    def __len__(self) -> int:
        return len(self._numbering)

    def locate(self, number: int) -> tuple[int, EpisodeRecord, int]:
        """The source, the episode and the start frame of a segment number."""
        places = self._numbering.locate([number])
        return int(places.source[0]), self._numbering.episodes[places.row[0]], int(places.start[0])

    def decode_all(self) -> None:
        """Decode every episode now, in order, rather than when it is first used."""
        for source in self.sources:
            for episode in source.index.episodes:
                for key in source.cameras:
                    if key is not None:
                        source.frames.ensure(episode, key)

    def __getitem__(self, numbers: Sequence[int]) -> SegmentBatch:
        """The segments of these numbers as one batch."""
        places = self._numbering.locate(numbers)
        self._decode_what_is_free(places)
        plan = self._plan(places)
        pictures, view_mask = self._pictures(places, plan)
        instructions = self._texts(places)
        arrays: dict[str, NDArray[Any]] = {
            "frames": pictures,
            "view_mask": view_mask,
            **self._vectors(places, plan),
            "current_frame": plan.current_frame,
            "future_frame": plan.future_frame,
            "action_is_pad": plan.action_is_pad,
            "has_target": plan.has_target,
            "offset_steps": plan.offset_steps,
            "sample_id": np.where(plan.chunk_is_pad, -1, places.first_sample[:, None] + plan.chunk_starts),
            "episode_id": places.episode_id,
            "task_id": np.array([self.task_ids[text] for text in instructions], dtype=np.int64),
            "source_id": places.source,
        }
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return SegmentBatch(**tensors, instructions=instructions)

    def _plan(self, places: Places) -> SegmentPlan:
        return self.layout.plan(places.start, places.length, places.first_sample)

    def _of_sources(self, places: Places) -> Iterator[tuple[Source, NDArray[np.int64]]]:
        """Each source that some of the segments are of, and which of them: (b,) into B."""
        for source_id in np.unique(places.source):
            yield self.sources[source_id], np.flatnonzero(places.source == source_id)

    def _decode_what_is_free(self, places: Places) -> None:
        """Decode what no other worker decodes at this moment, before waiting for what one does."""
        for source, chosen in self._of_sources(places):
            cameras = [key for key in source.cameras if key is not None]
            for row in dict.fromkeys(places.row[chosen].tolist()) if cameras else ():
                for key in cameras:
                    source.frames.ensure(self._numbering.episodes[row], key, wait=False)

    def _texts(self, places: Places) -> tuple[str, ...]:
        """The recorded instructions, or what stands in their place."""
        texts = [""] * len(places.row)
        for source, chosen in self._of_sources(places):
            tasks = source.tables.task_indices[places.first_frame[chosen] + places.start[chosen]]
            for number, task in zip(chosen.tolist(), tasks.tolist(), strict=True):
                texts[number] = source.index.tasks[task]
        episode_ids = places.episode_id.tolist()
        return tuple(self._instructions.get(id_, text) for id_, text in zip(episode_ids, texts, strict=True))

    def _vectors(self, places: Places, plan: SegmentPlan) -> dict[str, NDArray[Any]]:
        """States (B, T, 200) now and after, actions (B, T, L, 200), and the masks (B, 200) of what each robot has."""
        shape = plan.state_rows.shape
        vectors: dict[str, NDArray[Any]] = {
            "states": np.empty((*shape, UNIFIED_DIM), dtype=np.float32),
            "future_states": np.empty((*shape, UNIFIED_DIM), dtype=np.float32),
            "state_mask": np.empty((shape[0], UNIFIED_DIM), dtype=np.bool_),
            "actions": np.empty((*plan.action_rows.shape, UNIFIED_DIM), dtype=np.float32),
            "action_mask": np.empty((shape[0], UNIFIED_DIM), dtype=np.bool_),
        }
        for source, chosen in self._of_sources(places):
            first = places.first_frame[chosen]
            states, actions = source.tables.states, source.tables.actions
            for name, rows in (("states", plan.state_rows), ("future_states", plan.future_rows)):
                vectors[name][chosen] = source.state_map.to_unified(states[first[:, None] + rows[chosen]])
            rows = first[:, None, None] + plan.action_rows[chosen]
            vectors["actions"][chosen] = source.action_map.to_unified(actions[rows])
            vectors["state_mask"][chosen] = source.state_map.slots.mask
            vectors["action_mask"][chosen] = source.action_map.slots.mask
        return vectors

    def _pictures(
        self, places: Places, plan: SegmentPlan
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:  # (B, F, V, 3, H, W), (B, V)
        """Black, and False in the mask, where a source lacks a view."""
        size, count = self.config.image_size, len(places.row)
        pictures = np.zeros((count, self.layout.num_frames, self.num_views, 3, size, size), dtype=np.uint8)
        mask = np.zeros((count, self.num_views), dtype=np.bool_)
        for source, chosen in self._of_sources(places):
            for view, key in enumerate(source.cameras):
                if key is None:
                    continue
                mask[chosen, view] = True
                for number in chosen.tolist():
                    episode = self._numbering.episodes[places.row[number]]
                    pictures[number, :, view] = source.frames.read(episode, key, plan.frame_rows[number].tolist())
        return pictures, mask


def _open_sources(config: DataConfig, episode_weights: NDArray[np.float64] | None) -> tuple[Source, ...]:
    """Each with the weights of its own episodes."""
    sources: list[Source] = []
    for source in config.sources:
        first = sum(before.index.total_episodes for before in sources)
        sources.append(open_source(source, config, None if episode_weights is None else episode_weights[first:]))
    return tuple(sources)


def _check_num_chunks(config: DataConfig, longest: int) -> None:
    """A segment may well be longer than an episode, but one that is nearly all padding fills the memory with it."""
    most = MAX_PADDING_RATIO * -(-longest // config.chunk_length)
    if config.num_chunks > most:
        raise ConfigError(
            f"num_chunks is {config.num_chunks}, and the longest episode has {longest} frames: segments of chunks of "
            f"{config.chunk_length} would be nearly all padding; it must be at most {most}"
        )
