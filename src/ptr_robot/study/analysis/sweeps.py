"""Sweeps: methods that differ from a reference in one setting of PTR alone, in the order of its value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptr_robot.eval.success_statistics import Interval
from ptr_robot.study.analysis.findings import outcomes
from ptr_robot.study.analysis.seed_statistics import success_rate
from ptr_robot.study.cells.record import CellRecord
from ptr_robot.study.cells.training import all_settings
from ptr_robot.study.report.text_table import TextTable, rate, rate_with_interval
from ptr_robot.study.run import StudyRecords
from ptr_robot.study.spec.definition import Study


@dataclass(frozen=True)
class SweepPoint:
    """One value of the swept setting, with what the paper's figure follows."""

    value: float
    method: str
    success: Interval
    score: float | None  # mean score at the last record
    weight_deviation: float | None  # of the weights at the last record
    is_reference: bool


@dataclass(frozen=True)
class Sweep:
    """One setting of PTR in one data condition."""

    setting: str
    name: str  # as the study writes it
    path: str  # of PTR's settings
    points: tuple[SweepPoint, ...]


def find_sweeps(records: StudyRecords) -> tuple[Sweep, ...]:
    """Every sweep that the study names, in each of its settings."""
    study = records.study
    found = []
    for setting in study.settings:
        for name, path in study.sweeps.items():
            points = [
                _point(value, method, records.of(setting, method), method == study.sweep_reference)
                for value, method in swept_methods(study, path)
                if records.of(setting, method)
            ]
            if points:
                found.append(Sweep(setting, name, path, tuple(points)))
    return tuple(found)


def swept_methods(study: Study, path: str) -> list[tuple[float, str]]:
    """The values of the setting at ``path`` and the methods that have them, the reference's among them."""
    by_name = {row.name: row for row in study.methods}
    compared = by_name[study.sweep_reference]
    on_same_data = [r for r in study.methods if (r.filter, r.weighting) == (compared.filter, compared.weighting)]
    rows = {row.name: all_settings(row, study.training) for row in on_same_data}
    reference = rows[study.sweep_reference]
    points = []
    for name, settings in rows.items():
        others = [key for key in reference if key != path and settings[key] != reference[key]]
        if not others and (name == study.sweep_reference or settings[path] != reference[path]):
            points.append((float(settings[path]), name))
    return sorted(points)


def sweep_table(sweeps: tuple[Sweep, ...]) -> TextTable | None:
    """One row a value."""
    if not sweeps:
        return None
    rows = [
        (
            f"{sweep.setting}: {sweep.name} = {point.value:g}" + (" (reference)" if point.is_reference else ""),
            rate_with_interval(point.success),
            rate(point.score),
            rate(point.weight_deviation),
        )
        for sweep in sweeps
        for point in sweep.points
    ]
    note = "Score: mean at the end of training. Deviation: of the weights there; the paper's stability is its inverse."
    return TextTable("sweeps", ("setting", "success", "score", "weights' deviation"), tuple(rows), note)


def _point(value: float, method: str, cells: dict[int, CellRecord], is_reference: bool) -> SweepPoint:
    records = list(cells.values())
    return SweepPoint(
        value,
        method,
        success_rate(outcomes(cells)),
        _mean_of(records, lambda cell: _last(cell, "score_mean")),
        _mean_of(records, lambda cell: _last(cell, "weight_std")),
        is_reference,
    )


def _last(cell: CellRecord, curve: str) -> float | None:
    values = cell.curves.get(curve)
    return values[-1] if values else None


def _mean_of(cells: list[CellRecord], value: Callable[[CellRecord], float | None]) -> float | None:
    known = [number for cell in cells if (number := value(cell)) is not None]
    return float(np.mean(known)) if known else None
