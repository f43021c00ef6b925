"""``curves.png``: the records of a run at a glance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ptr_robot.errors import require
from ptr_robot.files import atomic_file
from ptr_robot.train.records import read_records

CURVES_FILE = "curves.png"
PANELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("action loss", ("action_loss",)),
    ("scorer's losses", ("identification_loss", "ranking_loss")),
    ("accuracy of the scorer", ("accuracy",)),
    ("score, mean ± std", ("score_mean",)),
    ("weight, mean ± std", ("weight_mean",)),
    ("effective share of the batch", ("effective_share",)),
)


def draw_curves(run: Path) -> Path:
    """Draw the records of a run folder into it, atomically."""
    figure = require("matplotlib.figure", "report").Figure(figsize=(11, 6), layout="constrained")
    records = [_with_share(record) for record in read_records(run)]
    for axes, (title, names) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        for name in names:
            _draw(axes, records, name)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("step", fontsize=8)
        axes.tick_params(labelsize=8)
        if len(names) > 1 and axes.lines:
            axes.legend(fontsize=8)
    figure.suptitle(run.name, fontsize=11)
    with atomic_file(run / CURVES_FILE) as file:
        figure.savefig(file, format="png", dpi=120)
    return run / CURVES_FILE


def _draw(axes: Any, records: list[dict[str, Any]], name: str) -> None:
    """A line where there are numbers, with a band where their spread was recorded too."""
    shown = [record for record in records if name in record]
    if not shown:
        axes.text(0.5, 0.5, "no numbers in this run", ha="center", transform=axes.transAxes, fontsize=8)
        return
    steps, values = [record["step"] for record in shown], [record[name] for record in shown]
    (line,) = axes.plot(steps, values, label=name.replace("_", " "))
    spread = name.replace("_mean", "_std")
    if spread != name:
        low = [record[name] - record[spread] for record in shown]
        high = [record[name] + record[spread] for record in shown]
        axes.fill_between(steps, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def _with_share(record: dict[str, Any]) -> dict[str, Any]:
    size = record.get("effective_sample_size")  # none where every sample of the step weighed nothing
    return record if size is None else record | {"effective_share": size / record["num_samples"]}
