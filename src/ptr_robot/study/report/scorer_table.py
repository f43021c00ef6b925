"""How far the scorer of each method got: where it ended, and whether its controller left the weights any range."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ptr_robot.study.analysis.findings import MethodFinding, SettingFinding
from ptr_robot.study.cells.record import CellRecord
from ptr_robot.study.report.curves import mean_curve
from ptr_robot.study.report.text_table import NOTHING, TextTable

_LAST = 10  # the last tenth of the records: one batch says little
_NUMBERS = {
    "accuracy": "accuracy",
    "margin": "margin",
    "score_mean": "score T",
    "temperature": "τ",
    "beta": "β",
    "effective_share": "effective share",
}
NOTE = (
    "Means over the last tenth of the training. The paper's plots end at a score of 2.8 to 3.8 and a margin of 1.9 to "
    "7.5, its controller at τ = 0.03; bounds are 0.03 to 0.20 for τ and 0.5 to 3 for β, whose upper ends make weights "
    "flattest. Effective share: what is left of a batch under its weights, 1 where all are equal."
)


def scorer_table(finding: SettingFinding, cells: Sequence[CellRecord]) -> TextTable | None:
    """One row a method that identifies consequences; None where none does."""
    rows = [
        (method.title, *(_shown(_end(own, name)) for name in _NUMBERS))
        for method in finding.methods
        if (own := _cells_of(method, finding, cells)) and mean_curve(own, "accuracy") is not None
    ]
    return TextTable("", ("scorer at the end", *_NUMBERS.values()), tuple(rows), NOTE) if rows else None


def _cells_of(method: MethodFinding, finding: SettingFinding, cells: Sequence[CellRecord]) -> list[CellRecord]:
    return [cell for cell in cells if (cell.setting, cell.method) == (finding.setting, method.method)]


def _end(cells: Sequence[CellRecord], name: str) -> float:
    """NaN where the number was not recorded."""
    curve = mean_curve(cells, name)
    if curve is None:
        return math.nan
    values = curve[1]
    last = values[-max(1, len(values) // _LAST) :]
    known = last[~np.isnan(last)]
    return float(known.mean()) if known.size else math.nan


def _shown(value: float) -> str:
    return NOTHING if math.isnan(value) else f"{value:.2f}".replace("-", "−")
