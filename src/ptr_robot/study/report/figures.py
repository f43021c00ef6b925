"""A study's figures as PNG files: differences, detection, sweeps, and training over its steps."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptr_robot.study.analysis.findings import SettingFinding, StudyFindings
from ptr_robot.study.analysis.sweeps import Sweep
from ptr_robot.study.report.curves import mean_curve
from ptr_robot.study.report.drawing import (
    add_legend,
    colour_of,
    new_figure,
    pyplot,
    use_log_scale,
    write_figure,
)
from ptr_robot.study.report.sweep_figures import draw_sweeps

_BETTER, _WORSE, _UNSURE = "#2a78b5", "#d1602b", "#8a939b"
_LEGEND = "blue: interval above zero, orange: below, grey: includes zero; hollow: knows what is faulty"
_TITLE_COLUMNS = 75
_LEAST_RANGE = 0.1  # of differences, to each side
_PANELS: tuple[tuple[str, str], ...] = (
    ("accuracy", "posterior accuracy"),
    ("margin", "margin"),
    ("score_mean", "score"),
    ("weight_mean", "weight, mean"),
    ("weight_std", "weight, deviation"),
    ("effective_share", "effective share of the batch"),
    ("weight_entropy", "weight entropy / log N"),
    ("token_entropy", "belief token entropy"),
    ("temperature", "τ"),
    ("beta", "β"),
    ("hard_ratio", "share of hard negatives"),
    ("action_loss", "action loss, under the weights"),
)


def draw_figures(findings: StudyFindings, sweeps: Sequence[Sweep], folder: Path) -> list[Path]:
    """Everything that the study has numbers for."""
    compared = [s for s in findings.settings if any(method.difference is not None for method in s.methods)]
    study = findings.records.study
    knowing = {row.name for row in study.methods if row.knows_the_truth}
    drawn = [
        draw_forest(setting, folder / f"differences-{setting.setting}.png", study.baseline, knowing)
        for setting in compared
    ]
    if any(setting.detection for setting in findings.settings):
        drawn.append(draw_detection(findings.settings, folder / "auroc.png"))
    for setting_name in dict.fromkeys(sweep.setting for sweep in sweeps):
        chosen = [sweep for sweep in sweeps if sweep.setting == setting_name]
        drawn.append(draw_sweeps(chosen, folder / f"sweeps-{setting_name}.png"))
    for setting in findings.settings if study.dynamics else ():
        drawn += [draw_dynamics(findings, setting, folder / f"dynamics-{setting.setting}.png")]
    return drawn


def draw_forest(setting: SettingFinding, path: Path, baseline: str, knowing: Collection[str]) -> Path:
    """Paired differences to the baseline with their intervals, a line each; those who know the truth are hollow."""
    shown = [(method, method.difference) for method in setting.methods if method.difference is not None]
    figure, axes = new_figure(7, 1.1 + 0.3 * len(shown))
    for place, (method, interval) in enumerate(shown):
        is_known = not math.isnan(interval.low)
        colour = _UNSURE if not is_known or interval.low <= 0 <= interval.high else _BETTER
        colour = _WORSE if is_known and interval.high < 0 else colour
        is_told = method.method in knowing
        if is_known:
            axes.plot([interval.low, interval.high], [place] * 2, "--" if is_told else "-", color=colour, linewidth=2)
        fill = "white" if is_told else colour
        axes.plot([interval.estimate], [place], "o", color=colour, markerfacecolor=fill, zorder=3)
    axes.axvline(0, color="#444444", linewidth=0.8)
    of_baseline = {seed for method in setting.methods if method.method == baseline for seed in method.seeds}
    labels = [f"{method.title} ({_seeds(of_baseline.intersection(method.seeds))})" for method, _ in shown]
    axes.set_yticks(range(len(shown)), labels)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    _widen(axes)
    titles = {method.method: method.title for method in setting.methods}
    reference = f"success minus that of {titles.get(baseline, baseline)} on the same seeds, 95% interval"
    axes.set_xlabel(reference, fontsize=8)
    figure.supxlabel(_LEGEND, fontsize=8)  # over the whole width, as the title
    warning = setting.fitness.warning
    title = setting.title if warning is None else f"{setting.title} ({warning})"
    figure.suptitle(textwrap.fill(title, _TITLE_COLUMNS), fontsize=11)
    return write_figure(figure, path)


def _widen(axes: Any) -> None:
    """A difference of little looks like little, and there are few enough ticks to read."""
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -_LEAST_RANGE), max(high, _LEAST_RANGE))
    axes.locator_params(axis="x", nbins=6)


def _seeds(shared: Collection[int]) -> str:
    return f"{len(shared)} seed{'s' if len(shared) > 1 else ''}"


def draw_detection(settings: Sequence[SettingFinding], path: Path) -> Path:
    """AUROC as a map: a row for each score or weight, a column for each fault of each setting."""
    rows = list(dict.fromkeys((f.title, f.value) for setting in settings for f in setting.detection))
    columns = list(dict.fromkeys((setting.setting, f.fault) for setting in settings for f in setting.detection))
    areas = np.full((len(rows), len(columns)), np.nan)
    for setting in settings:
        for found in setting.detection:
            place = rows.index((found.title, found.value)), columns.index((setting.setting, found.fault))
            areas[place] = found.auroc.estimate
    figure, axes = new_figure(4.2 + 0.6 * len(columns), 2.2 + 0.3 * len(rows))
    image = axes.imshow(areas, cmap="RdBu", vmin=0, vmax=1, aspect="auto")
    for (row, column), area in np.ndenumerate(areas):
        if not math.isnan(area):
            colour = "white" if abs(area - 0.5) > 0.3 else "black"
            axes.text(column, row, f"{area:.2f}", ha="center", va="center", fontsize=7, color=colour)
    names = [setting + ": " if len(settings) > 1 else "" for setting, _ in columns]
    labels = [name + fault.replace("_", " ") for name, (_, fault) in zip(names, columns, strict=True)]
    axes.set_xticks(range(len(columns)), labels, rotation=45, ha="right", fontsize=8)
    axes.set_yticks(range(len(rows)), [f"{title}: {value}" for title, value in rows], fontsize=8)
    figure.suptitle("AUROC within tasks: blue finds the fault, red prefers it", fontsize=10)
    figure.colorbar(image, shrink=0.8, ticks=[0, 0.5, 1]).set_label("0.5: chance", fontsize=8)
    return write_figure(figure, path)


def draw_dynamics(findings: StudyFindings, setting: SettingFinding, path: Path) -> Path:
    """What training recorded over its steps, the mean over seeds, one line a method."""
    figure, grid = pyplot().subplots(3, 4, figsize=(13, 8), layout="constrained")
    for axes, (name, title) in zip(grid.flat, _PANELS, strict=True):
        for number, method in enumerate(setting.methods):
            colour = colour_of(number, len(setting.methods))
            curve = mean_curve(list(findings.records.of(setting.setting, method.method).values()), name)
            if curve is not None:
                axes.plot(*curve, label=method.title, linewidth=1.4, color=colour)
        axes.set_title(title, fontsize=10)
        axes.tick_params(labelsize=8, which="both")
    if grid[2][3].lines and grid[2][3].dataLim.y0 > 0:
        use_log_scale(grid[2][3])
    for axes in grid[2]:
        axes.set_xlabel("step", fontsize=8)
    add_legend(figure, [*grid.flat][::-1])  # every method has the last panel's
    return write_figure(figure, path)
