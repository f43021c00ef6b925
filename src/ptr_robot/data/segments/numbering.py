"""Where segments lie: the numbers of a mixture's segments, and the source, episode and frame behind each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import EpisodeRecord
from ptr_robot.data.segments.cutting import SegmentLayout
from ptr_robot.data.segments.source import Source

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Where some segments lie; each array has one entry a segment."""

    row: Integers  # (B,) the episode, as a row of the numbering
    source: Integers  # (B,)
    start: Integers  # (B,) frame of the episode
    length: Integers  # (B,) frames of the episode
    first_frame: Integers  # (B,) of the episode in the source's arrays
    first_sample: Integers  # (B,) the sample id of the episode's first frame
    episode_id: Integers  # (B,)


class SegmentNumbering:
    """Segments are numbered source by source, episode by episode, start by start; episodes are rows in that order."""

    def __init__(self, sources: Sequence[Source], layout: SegmentLayout) -> None:
        self._stride = layout.stride
        self.episodes: tuple[EpisodeRecord, ...] = tuple(e for source in sources for e in source.index.episodes)
        first_samples = np.cumsum([0, *(source.index.total_frames for source in sources)])
        self.first_episodes: Integers = np.cumsum([0, *(source.index.total_episodes for source in sources)])
        self._source = np.repeat(np.arange(len(sources)), [len(source.index.episodes) for source in sources])
        self._length = np.array([episode.length for episode in self.episodes])
        self._first_frame = np.array(
            [source.tables.first_frame[e.episode_index] for source in sources for e in source.index.episodes]
        )
        self._first_sample = first_samples[self._source] + [episode.first_index for episode in self.episodes]
        within = np.array([episode.episode_index for episode in self.episodes])
        self._episode_id: Integers = self.first_episodes[self._source] + within
        self._ends = np.cumsum([layout.segments_in(episode.length) for episode in self.episodes])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Segments of each source."""
        counted = np.bincount(self._source, np.diff(self._ends, prepend=0), minlength=len(self.first_episodes) - 1)
        return tuple(int(count) for count in counted)

    @property
    def first_segments(self) -> list[int]:
        """The number of the first segment of every episode, in order."""
        first: list[int] = [0, *self._ends[:-1].tolist()]
        return first

    def spread(self, episode_values: NDArray[np.float64]) -> NDArray[np.float64]:  # (episodes,) -> (segments,)
        """Each segment's episode's value."""
        return np.repeat(episode_values[self._episode_id], np.diff(self._ends, prepend=0))

    def locate(self, numbers: Sequence[int] | Integers) -> Places:
        """Where the segments of these numbers lie."""
        chosen = np.asarray(numbers, dtype=np.int64)
        outside = chosen[(chosen < 0) | (chosen >= len(self))]
        if len(outside):
            raise IndexError(f"segment {outside[0]} of {len(self)}")
        row = np.searchsorted(self._ends, chosen, side="right")
        before = np.where(row > 0, self._ends[row - 1], 0)
        return Places(
            row=row,
            source=self._source[row],
            start=(chosen - before) * self._stride,
            length=self._length[row],
            first_frame=self._first_frame[row],
            first_sample=self._first_sample[row],
            episode_id=self._episode_id[row],
        )
