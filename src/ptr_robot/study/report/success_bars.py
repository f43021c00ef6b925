"""Success of the baseline and of PTR side by side, as in the paper's figure of corrupted data."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptr_robot.eval.success_statistics import Interval
from ptr_robot.study.analysis.findings import SettingFinding, StudyFindings, outcomes
from ptr_robot.study.analysis.seed_statistics import success_rate
from ptr_robot.study.report.drawing import add_legend, new_figure, write_figure

_BASELINE, _REFERENCE, _GAIN, _LOSS = "#8a939b", "#2a78b5", "#2e7d4f", "#d1602b"
_UNSURE = "#6b7280"  # the interval of the difference holds zero, or there is none
_LABEL_COLUMNS = 22


def draw_bars(findings: StudyFindings, settings: Sequence[SettingFinding], path: Path) -> Path:
    """Success over the seeds that both have; the badge has the difference, grey where it may be none.

    Where they share no seed there is no difference, and each bar is of its own seeds.
    """
    study = findings.records.study
    titles = {row.name: row.label for row in study.methods}
    rows = (study.baseline, study.sweep_reference)
    bars = [success_of_pair(findings, setting.setting, rows) for setting in settings]
    figure, axes = new_figure(2.2 + 1.5 * len(settings), 3.6)
    for side, (name, colour) in enumerate(zip(rows, (_BASELINE, _REFERENCE), strict=True)):
        shown = [(place, success) for place, pair in enumerate(bars) if (success := pair[side]) is not None]
        _draw_row(axes, 0.4 * side - 0.2, shown, colour, titles.get(name, name))
    for place, (setting, pair) in enumerate(zip(settings, bars, strict=True)):
        _badge(axes, place, _difference(setting, study.sweep_reference), pair)
    labels = [_label(findings, setting, rows) for setting in settings]
    axes.set_xticks(range(len(settings)), labels, fontsize=8)
    axes.set(xlim=(-0.6, len(settings) - 0.4), ylim=(0, 1.15), yticks=np.linspace(0, 1, 6))
    axes.set_ylabel("success, 95% interval")
    add_legend(figure, [axes], place="outside upper center")
    return write_figure(figure, path)


def success_of_pair(findings: StudyFindings, setting: str, methods: tuple[str, str]) -> tuple[Interval | None, ...]:
    """Success of two methods over the seeds that both have, or else over each one's own; None where it has no cell."""
    cells = [findings.records.of(setting, method) for method in methods]
    shared = cells[0].keys() & cells[1].keys()
    kept = [{seed: cell for seed, cell in own.items() if seed in shared or not shared} for own in cells]
    return tuple(success_rate(outcomes(own)) if own else None for own in kept)


def _draw_row(axes: Any, offset: float, shown: Sequence[tuple[int, Interval]], colour: str, title: str) -> None:
    places = [place + offset for place, _ in shown]
    if places:
        axes.bar(places, [success.estimate for _, success in shown], width=0.36, color=colour, label=title)
    for place, (_, success) in zip(places, shown, strict=True):
        if not math.isnan(success.low):
            axes.plot([place] * 2, [success.low, success.high], color="#222222", linewidth=1)


def _badge(axes: Any, place: int, difference: Interval | None, pair: Sequence[Interval | None]) -> None:
    if difference is None:
        return
    shown = [success for success in pair if success is not None]
    height = max(max(s.estimate, 0.0 if math.isnan(s.high) else s.high) for s in shown)
    colour = _GAIN if difference.low > 0 else _LOSS if difference.high < 0 else _UNSURE
    box = {"boxstyle": "round,pad=0.25", "facecolor": colour, "edgecolor": "none"}
    text = f"{difference.estimate:+.2f}".replace("-", "−")
    axes.text(place, height + 0.05, text, ha="center", va="bottom", fontsize=8, color="white", bbox=box)


def _difference(setting: SettingFinding, method: str) -> Interval | None:
    return next((found.difference for found in setting.methods if found.method == method), None)


def _label(findings: StudyFindings, setting: SettingFinding, methods: tuple[str, str]) -> str:
    """The setting, what its controls say against a verdict, and the number of seeds where both rows have the same."""
    text = setting.setting + (f" ({warning})" if (warning := setting.fitness.warning) else "")
    first, second = (findings.records.of(setting.setting, method) for method in methods)
    count = len(first.keys() & second.keys())
    seeds = [f"{count} seed{'s' if count > 1 else ''}"] if count else []
    return "\n".join([textwrap.fill(text, _LABEL_COLUMNS), *seeds])
