"""Figures without a display: made, and written atomically; and what several of them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptr_robot.errors import require
from ptr_robot.files import atomic_file

DOTS_PER_INCH = 130
_NUM_COLOURS = 10  # of matplotlib's own cycle; its map "tab20" has twice as many
_INCHES_PER_LABEL = 1.8


def pyplot() -> Any:
    """matplotlib's, which then never asks for a display."""
    require("matplotlib", "report").use("Agg")
    return require("matplotlib.pyplot", "report")


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure of that many inches, and its axes."""
    figure, axes = pyplot().subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def colour_of(number: int, count: int) -> Any:
    """The colour of a line, of ``count``; twenty have one of their own."""
    return f"C{number}" if count <= _NUM_COLOURS else pyplot().get_cmap("tab20")(number % 20)


def add_legend(figure: Any, panels: Sequence[Any], *, place: str = "outside lower center") -> None:
    """One legend beside the panels, where it hides nothing; a label that several of them have is there once."""
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        columns = min(len(handles), max(2, int(figure.get_figwidth() / _INCHES_PER_LABEL)))
        figure.legend(handles.values(), handles, loc=place, ncols=columns, fontsize=8, frameon=False)


def use_log_scale(axes: Any) -> None:
    """A log scale for what is above zero; its ticks are plain numbers."""
    ticker = require("matplotlib.ticker", "report")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())


def write_figure(figure: Any, path: Path) -> Path:
    """Write a PNG file and let the figure go."""
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    pyplot().close(figure)
    return path
