"""Figures without a display: made, and written atomically."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ptr_robot.errors import require
from ptr_robot.files import atomic_file

DOTS_PER_INCH = 130


def pyplot() -> Any:
    """matplotlib's, which then never asks for a display."""
    require("matplotlib", "report").use("Agg")
    return require("matplotlib.pyplot", "report")


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure of that many inches, and its axes."""
    figure, axes = pyplot().subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def write_figure(figure: Any, path: Path) -> Path:
    """Write a PNG file and let the figure go."""
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    pyplot().close(figure)
    return path
