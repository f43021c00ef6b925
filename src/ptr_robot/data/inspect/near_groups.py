"""Groups of points that lie close together, found in one pass: the time grows with the number of points."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np
from numpy.typing import NDArray

NUM_DIRECTIONS = 3


def near_groups(points: NDArray[np.float64], distance: float) -> dict[int, list[int]]:  # (N, D)
    """By the first point of each group: the later points nearer to it than ``distance``, where there are any.

    Points nearer than ``distance`` are no farther apart in any direction. Cells of that size along the directions of
    greatest spread leave a point to be compared with what is in its own and the adjoining cells, and there only with
    the first points of groups: a thousand copies are compared with one.
    """
    centred = points - points.mean(axis=0)  # far from zero, differences would lose their digits
    cells = np.floor(centred @ _directions(centred) / distance).astype(np.int64)  # (N, 3)
    offsets = list(product((-1, 0, 1), repeat=cells.shape[1]))
    firsts: dict[tuple[int, ...], list[int]] = defaultdict(list)  # by cell
    groups: dict[int, list[int]] = defaultdict(list)
    for number, cell in enumerate(cells.tolist()):
        around = [tuple(place + step for place, step in zip(cell, offset, strict=True)) for offset in offsets]
        known = [first for place in around if place in firsts for first in firsts[place]]
        first = _nearest(centred, number, sorted(known), distance)
        if first is None:
            firsts[tuple(cell)].append(number)
        else:
            groups[first].append(number)
    return dict(sorted(groups.items()))


def _directions(centred: NDArray[np.float64]) -> NDArray[np.float64]:  # (D, 3)
    """Those of greatest spread, which tell most points apart; none is longer than one."""
    num_points, num_dimensions = centred.shape
    if num_dimensions <= num_points:
        _, vectors = np.linalg.eigh(centred.T @ centred)
        return vectors[:, -NUM_DIRECTIONS:]
    _, shares = np.linalg.eigh(centred @ centred.T)  # of few points: the same directions by a smaller matrix
    spans = centred.T @ shares[:, -NUM_DIRECTIONS:]
    directions: NDArray[np.float64] = spans / np.maximum(np.linalg.norm(spans, axis=0), np.finfo(np.float64).tiny)
    return directions


def _nearest(points: NDArray[np.float64], number: int, known: list[int], distance: float) -> int | None:
    """The first of the known points that is near enough."""
    if not known:
        return None
    squares = ((points[known] - points[number]) ** 2).sum(axis=1)
    near = np.flatnonzero(squares < distance**2)
    return known[near[0]] if len(near) else None
