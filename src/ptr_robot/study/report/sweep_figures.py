"""Sweeps as figures: success with its interval, and the paper's three diagnostics side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.study.analysis.sweeps import Sweep
from ptr_robot.study.report.drawing import add_legend, pyplot, write_figure

_DIAGNOSTICS = (("success", "o-", "#2a78b5"), ("final T", "s--", "#d1602b"), ("1 / Std(w)", "^:", "#2e7d4f"))


def draw_sweeps(sweeps: Sequence[Sweep], path: Path) -> Path:
    """Success with its interval over each swept setting; the reference's value is dashed."""
    figure, grid = _panels(sweeps)
    for axes, sweep in zip(grid, sweeps, strict=True):
        estimates = np.array([point.success.estimate for point in sweep.points])
        limits = np.array([[point.success.low, point.success.high] for point in sweep.points])
        whiskers = np.nan_to_num(np.abs(limits - estimates[:, None])).T  # one seed has no interval
        axes.errorbar(_swept_axis(axes, sweep), estimates, yerr=whiskers, marker="o", capsize=2, color="#2a78b5")
    grid[0].set_ylabel("success, 95% interval over seeds")
    return write_figure(figure, path)


def draw_hyperparameters(sweeps: Sequence[Sweep], path: Path) -> Path:
    """Success, final score and 1 / Std(w) over each swept setting, each divided by its largest; defaults are dashed."""
    figure, grid = _panels(sweeps)
    for axes, sweep in zip(grid, sweeps, strict=True):
        places = _swept_axis(axes, sweep)
        for (label, style, colour), values in zip(_DIAGNOSTICS, normalised_diagnostics(sweep), strict=True):
            axes.plot(places, values, style, color=colour, label=label)
    grid[0].set_ylabel("divided by its largest")
    add_legend(figure, grid[:1], place="outside upper center")
    return write_figure(figure, path)


def normalised_diagnostics(sweep: Sweep) -> list[NDArray[np.float64]]:  # (points,) each
    """Success, final T and 1 / Std(w); NaN where a point lacks one. What is below zero stays there."""
    success = np.array([point.success.estimate for point in sweep.points], dtype=float)
    score = np.array([np.nan if point.score is None else point.score for point in sweep.points], dtype=float)
    deviations = [point.weight_deviation for point in sweep.points]
    stability = np.array([1 / deviation if deviation else np.nan for deviation in deviations], dtype=float)
    return [values / largest if (largest := _largest(values)) else values for values in (success, score, stability)]


def _largest(values: NDArray[np.float64]) -> float:
    known = np.abs(values[~np.isnan(values)])
    return float(known.max()) if len(known) else 0.0


def _panels(sweeps: Sequence[Sweep]) -> tuple[Any, list[Any]]:
    size = (3.4 * len(sweeps), 3.2)
    figure, grid = pyplot().subplots(1, len(sweeps), figsize=size, squeeze=False, sharey=True, layout="constrained")
    for axes in grid[0]:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, list(grid[0])


def _swept_axis(axes: Any, sweep: Sweep) -> list[float]:
    """Ticks at the values alone, the reference's dashed; and where each point stands."""
    values = [point.value for point in sweep.points]
    is_logarithmic = len(values) > 1 and all(0 < value < math.inf for value in values)
    places = values if is_logarithmic else [float(place) for place in range(len(values))]  # in their order
    if is_logarithmic:
        axes.set_xscale("log")
    else:
        axes.set_xlim(-0.5, len(values) - 0.5)
    axes.set_xticks(places, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(sweep.name)
    for place, point in zip(places, sweep.points, strict=True):
        if point.is_reference:
            axes.axvline(place, color="#444444", linestyle="--", linewidth=0.8)
    return places
