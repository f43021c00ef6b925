"""The paper's own figures of a study: success under corruption, weights and loss, sweeps, and training by setting."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.study.analysis.findings import MethodFinding, SettingFinding, StudyFindings
from ptr_robot.study.analysis.sweeps import Sweep
from ptr_robot.study.cells.record import CellRecord
from ptr_robot.study.report.curves import mean_curve
from ptr_robot.study.report.drawing import new_figure, pyplot, write_figure

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]  # steps and values

_BASELINE, _REFERENCE, _GAIN, _LOSS = "#8a939b", "#2a78b5", "#2e7d4f", "#d1602b"
_UNSURE = "#6b7280"  # the interval of the difference holds zero, or there is none
_MAX_COLUMNS = 4
_TRAINING = (
    ("accuracy", "identification accuracy"),
    ("score_mean", "score T"),
    ("action_loss", "action loss, weighted"),
)
_LOSSES = {"plain_action_loss": ("-", ""), "action_loss": (":", ", weighted")}  # line and what the legend adds
_MARGIN = (("token_entropy", "belief token entropy"), ("margin", "margin"))
_DIAGNOSTICS = (("success", "o-", "#2a78b5"), ("final T", "s--", "#d1602b"), ("1 / Std(w)", "^:", "#2e7d4f"))


def draw_paper_figures(findings: StudyFindings, sweeps: Sequence[Sweep], folder: Path) -> list[Path]:
    """Those that the study has numbers for."""
    study = findings.records.study
    reference = study.sweep_reference
    compared = [setting for setting in findings.settings if _method(setting, reference) is not None]
    drawn = []
    if compared and study.baseline != reference:  # an ablation compares with PTR itself
        drawn.append(draw_bars(findings, compared, folder / "corrupted_bar.png"))
    if compared:
        weighed = [s for s in compared if _shares(_cells(findings, s, reference)) is not None]
        if weighed:
            drawn.append(draw_weights_and_loss(findings, weighed, folder / "ptr_vs_sft.png"))
        drawn.append(draw_by_setting(findings, compared, _TRAINING, folder / "training_analysis.png"))
        drawn.append(draw_by_setting(findings, compared, _MARGIN, folder / "margin_entropy.png"))
    for name in dict.fromkeys(sweep.setting for sweep in sweeps):
        chosen = [sweep for sweep in sweeps if sweep.setting == name]
        drawn.append(draw_hyperparameters(chosen, folder / f"hyperparam-{name}.png"))
    return drawn


def draw_bars(findings: StudyFindings, settings: Sequence[SettingFinding], path: Path) -> Path:
    """Success of the baseline and of PTR side by side; the badge has the difference, grey where it may be none."""
    study = findings.records.study
    figure, axes = new_figure(2.2 + 1.5 * len(settings), 3.6)
    for place, setting in enumerate(settings):
        for offset, name, colour in ((-0.2, study.baseline, _BASELINE), (0.2, study.sweep_reference, _REFERENCE)):
            method = _method(setting, name)
            if method is not None:
                _bar(axes, place + offset, method, colour, label=method.title if place == 0 else None)
        _badge(axes, place, setting, study.sweep_reference, study.baseline)
    labels = [setting.setting + (f"\n({w})" if (w := setting.fitness.warning) else "") for setting in settings]
    axes.set_xticks(range(len(settings)), [textwrap.fill(label, 22) for label in labels], fontsize=8)
    axes.set(ylim=(0, 1.2), yticks=np.linspace(0, 1, 6), ylabel="success, 95% interval")
    axes.legend(loc="upper left", ncols=2, fontsize=8, frameon=False)
    return write_figure(figure, path)


def _bar(axes: Any, place: float, method: MethodFinding, colour: str, label: str | None) -> None:
    success = method.success
    axes.bar([place], [success.estimate], width=0.36, color=colour, label=label)
    if not math.isnan(success.low):
        axes.plot([place] * 2, [success.low, success.high], color="#222222", linewidth=1)


def _badge(axes: Any, place: int, setting: SettingFinding, reference: str, baseline: str) -> None:
    method = _method(setting, reference)
    if method is None or method.difference is None:
        return
    shown = [m.success for m in setting.methods if m.method in (reference, baseline)]
    height = max(max(s.estimate, 0.0 if math.isnan(s.high) else s.high) for s in shown)
    colour = _GAIN if method.difference.low > 0 else _LOSS if method.difference.high < 0 else _UNSURE
    box = {"boxstyle": "round,pad=0.25", "facecolor": colour, "edgecolor": "none"}
    text = f"{method.difference.estimate:+.2f}".replace("-", "−")
    axes.text(place, height + 0.05, text, ha="center", va="bottom", fontsize=8, color="white", bbox=box)


def draw_weights_and_loss(findings: StudyFindings, settings: Sequence[SettingFinding], path: Path) -> Path:
    """Weights just after the warm-up and at the end, a panel a setting, and the loss that PTR saves over the steps."""
    study = findings.records.study
    reductions = [_reductions(findings, setting) for setting in settings]
    num_panels = len(settings) + any(reductions)
    num_columns = min(num_panels, _MAX_COLUMNS)
    num_rows = -(-num_panels // num_columns)
    size = (3.2 * num_columns, 2.8 * num_rows)
    figure, grid = pyplot().subplots(num_rows, num_columns, figsize=size, squeeze=False, layout="constrained")
    panels = list(grid.flat)
    for unused in panels[num_panels:]:
        unused.set_axis_off()
    for number, (axes, setting) in enumerate(zip(panels, settings, strict=False)):
        shares = _shares(_cells(findings, setting, study.sweep_reference))
        assert shares is not None
        edges, early, late = shares
        places = np.arange(len(edges))
        axes.bar(places, early, width=1.0, color="#b8bec4", alpha=0.8, label="after the warm-up")
        axes.bar(places, late, width=1.0, color=f"C{number}", alpha=0.6, label="at the end")
        axes.set_xticks(places[::4], [f"{edge:g}" for edge in edges[::4]])
        axes.set_title(setting.setting, fontsize=9)
        axes.set_xlabel("weight", fontsize=8)
        axes.legend(fontsize=7, frameon=False)
    grid[0][0].set_ylabel("share of chunks")
    if any(reductions):
        _draw_reductions(panels[len(settings)], settings, reductions)
    return write_figure(figure, path)


def _draw_reductions(axes: Any, settings: Sequence[SettingFinding], reductions: Sequence[Mapping[str, Curve]]) -> None:
    for number, (setting, curves) in enumerate(zip(settings, reductions, strict=True)):
        for name, curve in curves.items():
            style, note = _LOSSES[name]
            axes.plot(*curve, style, label=setting.setting + note, color=f"C{number}")
    axes.axhline(0, color="#444444", linewidth=0.8)
    axes.set_title("(ℓ SFT − ℓ PTR) / ℓ SFT", fontsize=9)
    axes.set_xlabel("step", fontsize=8)
    axes.legend(fontsize=7, frameon=False)


def _reductions(findings: StudyFindings, setting: SettingFinding) -> dict[str, Curve]:
    found = {name: loss_reduction(findings, setting, name) for name in _LOSSES}
    return {name: curve for name, curve in found.items() if curve is not None}


def loss_reduction(findings: StudyFindings, setting: SettingFinding, name: str) -> Curve | None:
    """Steps and (ℓ_SFT − ℓ_PTR) / ℓ_SFT; None where a method has none.

    ``name`` is ``plain_action_loss``, PTR's mean loss, or ``action_loss``, the mean under its weights, which also
    falls where easy chunks get the weight. SFT has no weights.
    """
    study = findings.records.study
    if study.baseline == study.sweep_reference:
        return None
    plain = mean_curve(_cells(findings, setting, study.baseline), "action_loss")
    weighted = mean_curve(_cells(findings, setting, study.sweep_reference), name)
    if plain is None or weighted is None or len(plain[0]) != len(weighted[0]):
        return None
    return plain[0], (plain[1] - weighted[1]) / plain[1]


def draw_by_setting(
    findings: StudyFindings, settings: Sequence[SettingFinding], panels: Sequence[tuple[str, str]], path: Path
) -> Path:
    """What PTR recorded over the steps, the mean over seeds, one line a setting; a panel each name and title."""
    figure, grid = pyplot().subplots(1, len(panels), figsize=(4 * len(panels), 3), squeeze=False, layout="constrained")
    for axes, (name, title) in zip(grid[0], panels, strict=True):
        for number, setting in enumerate(settings):
            curve = mean_curve(_cells(findings, setting, findings.records.study.sweep_reference), name)
            if curve is not None:
                axes.plot(*curve, label=setting.setting, linewidth=1.4, color=f"C{number}")
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("step", fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    if grid[0][-1].lines:
        grid[0][-1].legend(fontsize=8, frameon=False)
    return write_figure(figure, path)


def draw_hyperparameters(sweeps: Sequence[Sweep], path: Path) -> Path:
    """Success, final score and 1 / Std(w) over each swept setting, each divided by its largest value."""
    figure, grid = pyplot().subplots(
        1, len(sweeps), figsize=(3.4 * len(sweeps), 3), squeeze=False, sharey=True, layout="constrained"
    )
    for axes, sweep in zip(grid[0], sweeps, strict=True):
        for (label, style, colour), values in zip(_DIAGNOSTICS, normalised_diagnostics(sweep), strict=True):
            axes.plot([point.value for point in sweep.points], values, style, color=colour, label=label)
        for point in sweep.points:
            if point.is_reference:
                axes.axvline(point.value, color="#444444", linestyle="--", linewidth=0.8)
        axes.set(xscale="log", xlabel=sweep.name)
        axes.set_xticks([point.value for point in sweep.points], [f"{point.value:g}" for point in sweep.points])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    grid[0][0].set_ylabel("divided by its largest")
    grid[0][0].legend(fontsize=8, frameon=False)
    return write_figure(figure, path)


def normalised_diagnostics(sweep: Sweep) -> list[NDArray[np.float64]]:  # (points,) each
    """Success, final T and 1 / Std(w); NaN where a point lacks one."""
    success = np.array([point.success.estimate for point in sweep.points], dtype=float)
    score = np.array([np.nan if point.score is None else point.score for point in sweep.points], dtype=float)
    deviations = [point.weight_deviation for point in sweep.points]
    stability = np.array([1 / deviation if deviation else np.nan for deviation in deviations], dtype=float)
    return [values / largest if (largest := _largest(values)) else values for values in (success, score, stability)]


def _largest(values: NDArray[np.float64]) -> float:
    known = np.abs(values[~np.isnan(values)])
    return float(known.max()) if len(known) else 0.0


def _shares(cells: Sequence[CellRecord]) -> tuple[list[float], NDArray[np.float64], NDArray[np.float64]] | None:
    """Bin edges, and the shares of weights at the first record after the warm-up and at the last, mean over seeds."""
    names = [name for name in (cells[0].curves if cells else {}) if name.startswith("weight_share/")]
    if not names:
        return None
    early, late = [], []
    for cell in cells:
        shares = np.array([cell.curves[name] for name in names], dtype=float)  # (bins, records)
        deviations = np.array(cell.curves["weight_std"], dtype=float)
        moved = np.flatnonzero(deviations > 0)
        early.append(shares[:, moved[0] if len(moved) else 0])
        late.append(shares[:, -1])
    return [float(name.partition("/")[2]) for name in names], np.mean(early, axis=0), np.mean(late, axis=0)


def _method(setting: SettingFinding, name: str) -> MethodFinding | None:
    return next((method for method in setting.methods if method.method == name), None)


def _cells(findings: StudyFindings, setting: SettingFinding, method: str) -> list[CellRecord]:
    return list(findings.records.of(setting.setting, method).values())
