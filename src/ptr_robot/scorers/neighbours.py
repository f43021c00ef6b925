"""kNN deviation: how far an episode's chunks lie from what other episodes of its task do in the same place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ptr_robot.scorers.base import SuspicionRule
from ptr_robot.scorers.registry import register_scorer
from ptr_robot.scorers.tracks import Chunks, EpisodeSet, Track, mean_by_owner, whole_chunks

NUM_NEIGHBOURS = 5
_ROWS_AT_A_TIME = 1024


@register_scorer
class Neighbours(SuspicionRule):
    """Episodes that do in a place what others of their task do not."""

    name = "knn"
    title = "kNN deviation"

    def suspicions(self, episodes: EpisodeSet) -> list[float]:
        """The mean distance to what the nearest neighbours do."""
        return neighbour_deviation(episodes.tracks, episodes.chunk_length)


def neighbour_deviation(tracks: Sequence[Track], chunk_length: int) -> list[float]:
    """The distance of each chunk to the mean chunk of the nearest states of other episodes, averaged by episode.

    A task with a single episode has nothing to compare with: its deviation is 0.
    """
    chunks = whole_chunks(tracks, chunk_length)
    distances = np.zeros(len(chunks.owners))
    for task in np.unique(chunks.tasks):
        rows = np.flatnonzero(chunks.tasks == task)
        if len(np.unique(chunks.owners[rows])) > 1:
            distances[rows] = _deviations(chunks, rows)
    return mean_by_owner(distances, chunks.owners, len(tracks))


def _deviations(chunks: Chunks, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    states = torch.from_numpy(chunks.states[rows])
    actions = torch.from_numpy(chunks.actions[rows])
    owners = torch.from_numpy(chunks.owners[rows])
    parts = []
    for first in range(0, len(rows), _ROWS_AT_A_TIME):
        block = slice(first, first + _ROWS_AT_A_TIME)
        distances = torch.cdist(states[block], states)  # (block, N)
        is_own = owners[block].unsqueeze(1) == owners.unsqueeze(0)
        distances.masked_fill_(is_own, torch.inf)
        num_others = int((~is_own).sum(dim=1).min())
        nearest = distances.topk(min(NUM_NEIGHBOURS, num_others), largest=False).indices  # (block, k)
        parts.append((actions[block] - actions[nearest].mean(dim=1)).norm(dim=1))
    deviations: NDArray[np.float64] = torch.cat(parts).double().numpy()
    return deviations
