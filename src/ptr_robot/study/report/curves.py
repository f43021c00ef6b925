"""Numbers that training recorded over its steps, as means over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptr_robot.study.cells.record import CellRecord

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # steps and values
_Points = dict[float, float]  # by step; NaN where the record lacks the number

# What figures show, and the recorded numbers that it is made of.
_MADE_OF = {"effective_share": ("effective_sample_size", "num_samples"), "weight_entropy": ("kl", "num_samples")}


def mean_curve(cells: Sequence[CellRecord], name: str) -> Curve | None:
    """Steps and the mean of a number over the seeds that have it there, NaN where none has; None: none recorded it."""
    recorded = [points for cell in cells if (points := _points(cell, name))]
    return _mean(recorded) if recorded else None


def paired_curves(
    pairs: Sequence[tuple[CellRecord, CellRecord]], names: tuple[str, str]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None:
    """Steps and a number of each of two methods, both means over the seeds that have both numbers there.

    ``pairs`` has the cells of one seed each; None where no seed has both.
    """
    first: list[_Points] = []
    second: list[_Points] = []
    for cells in pairs:
        one, other = (_points(cell, name) for cell, name in zip(cells, names, strict=True))
        shared = [step for step in one if not math.isnan(one[step] + other.get(step, math.nan))]
        first.append({step: one[step] for step in shared})
        second.append({step: other[step] for step in shared})
    if not any(first):
        return None
    steps, means = _mean(first)
    return steps, means, _mean(second)[1]


def _mean(seeds: Sequence[_Points]) -> Curve:
    steps = sorted({step for points in seeds for step in points})
    known = [[points[step] for points in seeds if not math.isnan(points.get(step, math.nan))] for step in steps]
    return np.array(steps), np.array([np.mean(values) if values else math.nan for values in known])


def _points(cell: CellRecord, name: str) -> _Points:
    """What one seed recorded; empty where it did not."""
    columns = ("step", *_MADE_OF.get(name, (name,)))
    if any(column not in cell.curves for column in columns):
        return {}
    steps, numbers, *counts = (np.array(cell.curves[column], dtype=np.float64) for column in columns)  # None is NaN
    with np.errstate(divide="ignore", invalid="ignore"):  # a batch of one chunk has no entropy: NaN
        if name == "effective_share":
            numbers = numbers / counts[0]
        elif name == "weight_entropy":  # of the weights as shares: log N minus their divergence from equal ones
            numbers = 1 - numbers / np.log(counts[0])
    points: _Points = dict(zip(steps.tolist(), numbers.tolist(), strict=True))
    return {} if all(math.isnan(number) for number in points.values()) else points
