"""Rare rather than wrong: what differs for a reason that is no fault of the episode.

Channels that compare with other episodes know little of a corner of the workspace that only one episode starts in, and
find a whole session strange that was recorded in another way. Both can be seen: in where an episode starts, and in
suspicious episodes that lie next to each other while others are not suspicious.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.null_distribution import FEWEST_EPISODES, reference_moments
from ptr_robot.method.scoring.recordings import Recordings

Values = NDArray[np.float64]

_NUM_FRAMES = 3  # at the start, averaged
_NUM_NEIGHBOURS = 3
_UNUSUAL, _NOVEL = 1.3, 3.0  # deviations: a start that may explain the rest, and one that no other episode has
_SHORTEST_RUN = 3  # episodes
_LEAST_SHARE = 0.75  # of a run that is suspicious
_MOST_ELSEWHERE = 0.2  # of the other episodes that are suspicious
_CHANCE = 0.01
_ROWS_AT_ONCE = 1000


def start_novelty(recordings: Recordings, labels: NDArray[np.int64], reference: NDArray[np.bool_]) -> Values:  # (E,)
    """How far each start lies from the other starts of its task, in deviations of reference episodes."""
    starts = np.stack([episode.states[:_NUM_FRAMES].mean(axis=0) for episode in recordings.episodes])
    novelty = np.zeros(len(starts))
    for task in np.unique(labels):
        rows = np.flatnonzero(labels == task)
        if len(rows) < FEWEST_EPISODES:
            continue
        own, is_usual = starts[rows], reference[rows]
        if is_usual.sum() < FEWEST_EPISODES:
            is_usual = np.ones(len(rows), dtype=np.bool_)
        centre = np.median(own[is_usual], axis=0)
        from_centre = np.sqrt(((own - centre) ** 2).mean(axis=1))
        parts = [_unusual(distances, is_usual) for distances in (_neighbour_distances(own), from_centre)]
        novelty[rows] = np.maximum(*parts)
    return novelty


def _unusual(distances: Values, is_usual: NDArray[np.bool_]) -> Values:  # (n,), (n,) -> (n,)
    """How much larger than usual, in deviations of the logarithm."""
    logarithms = np.log(distances + 1e-3)
    centre, scale = reference_moments(logarithms[is_usual])
    unusual: Values = (logarithms - centre) / max(scale, 0.15)
    return unusual


def _neighbour_distances(points: NDArray[np.float32]) -> Values:  # (n, D) -> (n,)
    """To the third nearest other point."""
    found = []
    squares = (points.astype(np.float64) ** 2).sum(axis=1)
    for first in range(0, len(points), _ROWS_AT_ONCE):
        block = points[first : first + _ROWS_AT_ONCE].astype(np.float64)
        distances = squares[first : first + len(block), None] + squares - 2.0 * block @ points.T.astype(np.float64)
        nearest = min(_NUM_NEIGHBOURS, len(points) - 1)
        found.append(np.partition(distances, nearest, axis=1)[:, nearest])  # the nearest of all is the point itself
    return np.asarray(np.sqrt(np.maximum(np.concatenate(found), 0.0)))


def benefit_of_doubt(novelty: Values) -> Values:  # (E,) -> (E,) in [0, 1]
    """How far an unusual start excuses what is strange later."""
    return np.clip((novelty - _UNUSUAL) / (_NOVEL - _UNUSUAL), 0.0, 1.0)


def differing_sessions(is_suspicious: NDArray[np.bool_]) -> list[tuple[int, int]]:  # (E,) in the order of recording
    """First and last place of runs of suspicious episodes that chance does not make.

    With a share p of suspicious ones elsewhere, k in a row have the chance p^k at any one place.
    """
    total, found = len(is_suspicious), []
    places = np.flatnonzero(is_suspicious)
    while len(places) >= _SHORTEST_RUN:
        first, last = _longest_run(places)
        inside = int(is_suspicious[first : last + 1].sum())
        outside = total - (last + 1 - first)
        elsewhere = (int(is_suspicious.sum()) - inside + 1) / (outside + 2)
        if inside < _SHORTEST_RUN or 2 * (last + 1 - first) > total or elsewhere > _MOST_ELSEWHERE:
            break
        if total * elsewhere**inside > _CHANCE:
            break
        found.append((first, last))
        places = places[(places < first) | (places > last)]
    return sorted(found)


def _longest_run(places: NDArray[np.int64]) -> tuple[int, int]:
    """Of neighbouring suspicious episodes, with few others between them."""
    best = (int(places[0]), int(places[0]))
    best_count = 1
    for start in range(len(places)):
        for end in range(len(places) - 1, start, -1):
            count, width = end - start + 1, int(places[end] - places[start]) + 1
            if count <= best_count:
                break
            if count / width >= _LEAST_SHARE:
                best, best_count = (int(places[start]), int(places[end])), count
                break
    return best
