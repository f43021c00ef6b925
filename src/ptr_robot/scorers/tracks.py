"""Episodes as scorers see them: normalised states and actions, and the task that the dataset says they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.segments.source import Source, open_source
from ptr_robot.errors import DataError


@dataclass(frozen=True)
class Track:
    """One episode."""

    episode_index: int
    task: str
    states: NDArray[np.float32]  # (frames, Ds)
    actions: NDArray[np.float32]  # (frames, Da)

    @property
    def num_frames(self) -> int:
        """Its length."""
        return len(self.actions)


@dataclass(frozen=True)
class EpisodeSet:
    """The episodes of a dataset, and what a scorer has to know beside them."""

    tracks: tuple[Track, ...]
    chunk_length: int = 16  # frames that a policy acts at a time
    seed: int = 0  # of everything that a scorer draws
    fps: float = 30.0  # frames a second


@dataclass(frozen=True)
class Chunks:
    """Every chunk of every track that lies whole in its episode."""

    states: NDArray[np.float32]  # (N, Ds) at the chunk's start
    actions: NDArray[np.float32]  # (N, L * Da)
    tasks: NDArray[np.int64]  # (N,)
    owners: NDArray[np.int64]  # (N,) the place of the track


def read_episode_set(source: SourceConfig, data: DataConfig, seed: int = 0) -> EpisodeSet:
    """All usable episodes of a dataset, in the units that the policy is given."""
    opened = open_source(source, data)
    return EpisodeSet(tuple(_tracks(opened)), data.chunk_length, seed, opened.index.fps)


def read_tracks(source: SourceConfig, data: DataConfig) -> list[Track]:
    """The same without what a scorer is told beside them."""
    return list(read_episode_set(source, data).tracks)


def _tracks(opened: Source) -> list[Track]:
    tables, tracks = opened.tables, []
    for episode in opened.index.episodes:
        first = tables.first_frame[episode.episode_index]
        rows = slice(first, first + episode.length)
        states = opened.state_map.to_unified(tables.states[rows])[:, opened.state_map.slots.mask]
        actions = opened.action_map.to_unified(tables.actions[rows])[:, opened.action_map.slots.mask]
        task = opened.index.tasks[int(tables.task_indices[first])]
        tracks.append(Track(episode.episode_index, task, states, actions))
    return tracks


def whole_chunks(tracks: Sequence[Track], chunk_length: int) -> Chunks:
    """The chunks of episodes that are long enough to have one."""
    names = sorted({track.task for track in tracks})
    states, actions, tasks, owners = [], [], [], []
    for place, track in enumerate(tracks):
        count = track.num_frames - chunk_length + 1
        if count < 1:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(track.actions, chunk_length, axis=0)  # (count, Da, L)
        states.append(track.states[:count])
        actions.append(windows.reshape(count, -1))
        tasks.append(np.full(count, names.index(track.task)))
        owners.append(np.full(count, place))
    if not states:
        raise DataError(f"no episode has {chunk_length} frames, a chunk's length; record longer ones")
    return Chunks(np.concatenate(states), np.concatenate(actions), np.concatenate(tasks), np.concatenate(owners))


def mean_by_owner(values: NDArray[np.floating], owners: NDArray[np.int64], num_owners: int) -> list[float]:
    """The mean of each track's values; NaN for a track that has none."""
    counts = np.bincount(owners, minlength=num_owners)
    sums = np.bincount(owners, weights=values, minlength=num_owners)
    return [float(total / count) if count else float("nan") for total, count in zip(sums, counts, strict=True)]
