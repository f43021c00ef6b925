"""Numbers that training recorded over its steps, as means over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptr_robot.study.cells.record import CellRecord


def mean_curve(cells: Sequence[CellRecord], name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Steps and the mean over seeds of a recorded number; None where it was not recorded."""
    curves = [values for cell in cells if (values := _curve(cell, name)) is not None]
    if not curves:
        return None
    return np.array(cells[0].curves["step"], dtype=float), np.mean(curves, axis=0)


def _curve(cell: CellRecord, name: str) -> NDArray[np.float64] | None:
    sources = {"effective_share": "effective_sample_size", "weight_entropy": "kl"}
    values = cell.curves.get(sources.get(name, name))
    if values is None or "step" not in cell.curves:
        return None
    numbers: NDArray[np.float64] = np.array(values, dtype=np.float64)  # None becomes NaN
    counts: NDArray[np.float64] = np.array(cell.curves["num_samples"], dtype=np.float64)
    if name == "effective_share":
        numbers = numbers / counts
    elif name == "weight_entropy":  # of the weights as shares: log N minus their divergence from equal ones
        numbers = 1 - numbers / np.log(counts)
    return numbers
