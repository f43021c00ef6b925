"""Which episodes are alike: the nearest kept one of the same task, near-duplicates, and where each starts and ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.inspect.motion import SIGNATURE_POINTS, Motion
from ptr_robot.data.inspect.oddities import DUPLICATE_DISTANCE
from ptr_robot.data.lerobot.contents import DatasetIndex

ROWS_AT_A_TIME = 512

Place = tuple[float, float]


@dataclass(frozen=True)
class Similarity:
    """All by episode index."""

    nearest_kept: Mapping[int, int]
    duplicate_of: Mapping[int, int]
    starts: Mapping[int, Place]
    ends: Mapping[int, Place]


def compare_episodes(index: DatasetIndex, motion: Motion, kept: Mapping[int, bool]) -> Similarity:
    """Compare states and actions at sixteen shares of each episode's time, within tasks."""
    signatures = {episode.episode_index: episode.signature for episode in motion.episodes}
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for episode in index.episodes:
        groups[episode.tasks].append(episode.episode_index)
    nearest: dict[int, int] = {}
    duplicates: dict[int, int] = {}
    for members in groups.values():
        _compare_group(np.array(members), signatures, kept, nearest, duplicates)
    starts, ends = _first_and_last(motion)
    return Similarity(nearest, duplicates, starts, ends)


def _compare_group(
    members: NDArray[np.int64],
    signatures: Mapping[int, NDArray[np.float64]],
    kept: Mapping[int, bool],
    nearest: dict[int, int],
    duplicates: dict[int, int],
) -> None:
    values = np.stack([signatures[number] for number in members.tolist()]).astype(np.float32)  # (n, 16 * D)
    if not values.shape[1]:
        return
    values -= values.mean(axis=0)
    squares = (values**2).sum(axis=1)
    is_kept = np.array([kept[number] for number in members.tolist()])
    for first in range(0, len(members), ROWS_AT_A_TIME):
        rows = slice(first, first + ROWS_AT_A_TIME)
        distances = squares[rows, None] + squares[None, :] - 2 * values[rows] @ values.T  # (rows, n)
        distances[np.arange(distances.shape[0]), np.arange(first, first + distances.shape[0])] = np.inf
        for place, row in enumerate(distances):
            number = int(members[first + place])
            among_kept = np.where(is_kept, row, np.inf)
            if np.isfinite(among_kept.min(initial=np.inf)):
                nearest[number] = int(members[int(among_kept.argmin())])
            closest = int(row.argmin()) if len(row) else 0
            if closest < first + place and row[closest] / values.shape[1] < DUPLICATE_DISTANCE**2:
                duplicates[number] = int(members[closest])


def _first_and_last(motion: Motion) -> tuple[dict[int, Place], dict[int, Place]]:
    """First and last states in the plane in which they spread most."""
    numbers = [episode.episode_index for episode in motion.episodes]
    width = int(motion.states.moving.sum())
    if not numbers or not width:
        return dict.fromkeys(numbers, (0.0, 0.0)), dict.fromkeys(numbers, (0.0, 0.0))
    shape = (len(numbers), SIGNATURE_POINTS, -1)
    states = np.stack([episode.signature for episode in motion.episodes]).reshape(shape)[:, :, :width]
    return _in_plane(numbers, states[:, 0]), _in_plane(numbers, states[:, -1])


def _in_plane(numbers: list[int], states: NDArray[np.float64]) -> dict[int, Place]:  # (N, D)
    centred = np.nan_to_num(states - np.nanmean(states, axis=0))
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(numbers), 2))
    projected = centred @ axes[:2].T
    plane[:, : projected.shape[1]] = projected
    return {number: (float(x), float(y)) for number, (x, y) in zip(numbers, plane, strict=True)}
