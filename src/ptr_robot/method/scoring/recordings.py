"""Recorded episodes as scoring sees them: plain arrays of any robot, in units that make dimensions comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from ptr_robot.errors import NonFiniteError, ShapeError
from ptr_robot.method.folds import assign_folds

Array = NDArray[np.float32]
FEWEST_OF_A_TASK = 6  # episodes: tasks with fewer are predicted together


@dataclass(frozen=True, eq=False)
class Recording:
    """One episode, or an altered copy of one."""

    states: Array  # (T, Ds)
    actions: Array  # (T, Da)
    task: int
    fold: int = 0  # predictions of it come from models that were fitted without this fold
    group: int = 0  # tasks that are predicted by one model
    looks: Array | None = None  # (n, K) features of every ``look_stride``-th frame
    look_stride: int = 1

    @property
    def num_frames(self) -> int:
        """Its length."""
        return len(self.actions)

    def looks_at(self, frames: NDArray[np.int64]) -> Array:  # (n,) -> (n, K)
        """The features at these frames, or of the last frame before each that was looked at."""
        if self.looks is None:
            return np.zeros((len(frames), 0), dtype=np.float32)
        seen: Array = self.looks[np.minimum(frames // self.look_stride, len(self.looks) - 1)]
        return seen


@dataclass(frozen=True, eq=False)
class Recordings:
    """The episodes of a dataset."""

    episodes: tuple[Recording, ...]
    fps: float
    chunk_length: int = 16
    num_folds: int = 5
    is_smooth: NDArray[np.bool_] | None = None  # (Da,) actions of many values, which noise can be added to

    def __post_init__(self) -> None:
        widths = {(episode.states.shape[1], episode.actions.shape[1]) for episode in self.episodes}
        if len(widths) > 1:
            raise ShapeError(f"episodes have states and actions of different widths: {sorted(widths)}")
        for number, episode in enumerate(self.episodes):
            if not (np.isfinite(episode.states).all() and np.isfinite(episode.actions).all()):
                raise NonFiniteError(f"episode {number} holds NaN or infinity; leave it out")

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def tasks(self) -> NDArray[np.int64]:
        """(E,) of each episode."""
        return np.array([episode.task for episode in self.episodes], dtype=np.int64)

    def without_looks(self) -> Recordings:
        """The same, seen by nobody: states and actions alone."""
        return replace(self, episodes=tuple(replace(episode, looks=None) for episode in self.episodes))

    def with_tasks(self, tasks: Sequence[int]) -> Recordings:
        """The same episodes under these instructions; tasks of few episodes share a group."""
        numbers, places, counts = np.unique(np.asarray(tasks), return_inverse=True, return_counts=True)
        is_rare = counts < FEWEST_OF_A_TASK
        groups = np.where(is_rare, len(numbers), np.arange(len(numbers)))[places]
        episodes = tuple(
            replace(episode, task=int(task), group=int(group))
            for episode, task, group in zip(self.episodes, tasks, groups, strict=True)
        )
        return replace(self, episodes=episodes)

    def with_folds(self, seed: int) -> Recordings:
        """The same episodes in folds that this seed draws."""
        folds = assign_folds(torch.arange(len(self)), self.num_folds, seed).tolist()
        episodes = tuple(replace(episode, fold=fold) for episode, fold in zip(self.episodes, folds, strict=True))
        return replace(self, episodes=episodes)


def chunk_starts(num_frames: int, horizon: int, most: int) -> NDArray[np.int64]:
    """At most ``most`` frames at equal distances that have a frame ``horizon`` later; none in a shorter episode."""
    last = num_frames - 1 - horizon
    if last < 0:
        return np.zeros(0, dtype=np.int64)
    return np.unique(np.linspace(0, last, min(most, last + 1)).round().astype(np.int64))
