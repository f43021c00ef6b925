"""PTR's weights after the warm-up and at the end, and the action loss that it saves, as in the paper's figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.study.analysis.findings import SettingFinding, StudyFindings
from ptr_robot.study.cells.record import CellRecord
from ptr_robot.study.report.curves import Curve, paired_curves
from ptr_robot.study.report.drawing import add_legend, colour_of, pyplot, write_figure

_MAX_COLUMNS = 4
_BINS_PER_TICK = 4
_SHARE = "weight_share/"
_STYLES = {"plain_action_loss": "-", "action_loss": ":"}
_UNDER_WEIGHTS = "ℓ PTR under its weights"


@dataclass(frozen=True)
class WeightShares:
    """How the weights of the chunks lie, as means over seeds."""

    edges: tuple[float, ...]  # (bins + 1,), equal on a log scale; the outer bins hold what lies beyond them too
    early: NDArray[np.float64]  # (bins,) at the first record whose weights differ
    late: NDArray[np.float64]  # (bins,) at the last record


def draw_weights_and_loss(findings: StudyFindings, settings: Sequence[SettingFinding], path: Path) -> Path:
    """Weights just after the warm-up and at the end, a panel a setting, and the loss that PTR saves over the steps.

    The chunks are those of the last batch before the record, over all processes and without padding: of several
    micro-batches, the last one. A chunk that was not scored is among them with its weight of one.
    """
    reductions = [_reductions(findings, setting) for setting in settings]
    num_panels = len(settings) + any(reductions)
    num_columns = min(num_panels, _MAX_COLUMNS)
    num_rows = -(-num_panels // num_columns)
    size = (3.2 * num_columns, 2.8 * num_rows + 0.2)
    figure, grid = pyplot().subplots(num_rows, num_columns, figsize=size, squeeze=False, layout="constrained")
    panels = list(grid.flat)
    for unused in panels[num_panels:]:
        unused.set_axis_off()
    for number, (axes, setting) in enumerate(zip(panels, settings, strict=False)):
        shares = weight_shares(_cells(findings, setting))
        assert shares is not None
        _draw_shares(axes, shares, colour_of(number, len(settings)))
        axes.set_title(setting.setting, fontsize=9)
    for row in grid:
        row[0].set_ylabel("share of the batch's chunks", fontsize=8)
    if any(reductions):
        panels[len(settings)].set_ylabel("")
        _draw_reductions(panels[len(settings)], settings, reductions)
        add_legend(figure, panels[len(settings) :])
    return write_figure(figure, path)


def weight_shares(cells: Sequence[CellRecord]) -> WeightShares | None:
    """Over the seeds that recorded them; None where none did."""
    names = sorted({name for cell in cells for name in cell.curves if name.startswith(_SHARE)}, key=_edge)
    ends = [found for cell in cells if (found := _early_and_late(cell, names)) is not None]
    if not ends:
        return None
    early, late = np.mean(ends, axis=0)
    edges = [_edge(name) for name in names]
    ratio = (edges[-1] / edges[0]) ** (1 / max(len(edges) - 1, 1))
    return WeightShares((*edges, edges[-1] * ratio), early, late)


def _edge(name: str) -> float:
    return float(name.removeprefix(_SHARE))


def _early_and_late(cell: CellRecord, names: Sequence[str]) -> NDArray[np.float64] | None:  # (2, bins)
    """Of the records that have every bin; None where there is none."""
    if not names or any(name not in cell.curves for name in (*names, "weight_std")):
        return None
    shares = np.array([cell.curves[name] for name in names], dtype=float).T  # (records, bins); None is NaN
    deviations = np.array(cell.curves["weight_std"], dtype=float)
    is_known = ~np.isnan(shares).any(axis=1)
    shares, deviations = shares[is_known], deviations[is_known]
    if not len(shares):
        return None
    moved = np.flatnonzero(deviations > 0)
    early_and_late: NDArray[np.float64] = shares[[moved[0] if len(moved) else 0, -1]]
    return early_and_late


def _draw_shares(axes: Any, shares: WeightShares, colour: Any) -> None:
    num_bins = len(shares.early)
    lower_edges = np.arange(num_bins)
    axes.bar(lower_edges, shares.early, 1.0, align="edge", color="#b8bec4", alpha=0.8, label="after the warm-up")
    axes.bar(lower_edges, shares.late, 1.0, align="edge", color=colour, alpha=0.6, label="at the end")
    ticks = sorted({*range(0, num_bins, _BINS_PER_TICK), num_bins})
    axes.set_xticks(ticks, [f"{shares.edges[tick]:.2g}" for tick in ticks])
    axes.set_ylim(0, 1.25 * max(shares.early.max(), shares.late.max()))  # the legend is above the bars
    axes.set_xlabel("weight", fontsize=8)
    axes.legend(loc="upper center", ncols=2, fontsize=7, frameon=False)


def _draw_reductions(axes: Any, settings: Sequence[SettingFinding], reductions: Sequence[Mapping[str, Curve]]) -> None:
    for number, (setting, curves) in enumerate(zip(settings, reductions, strict=True)):
        colour = colour_of(number, len(settings))
        for name, curve in curves.items():
            axes.plot(*curve, _STYLES[name], color=colour)
        if curves:
            axes.plot([], [], "-", label=setting.setting, color=colour)
    axes.plot([], [], ":", label=_UNDER_WEIGHTS, color="#444444")
    axes.axhline(0, color="#444444", linewidth=0.8)
    axes.set_title("(ℓ SFT − ℓ PTR) / ℓ SFT", fontsize=9)
    axes.set_xlabel("step", fontsize=8)


def _reductions(findings: StudyFindings, setting: SettingFinding) -> dict[str, Curve]:
    found = {name: loss_reduction(findings, setting, name) for name in _STYLES}
    return {name: curve for name, curve in found.items() if curve is not None}


def loss_reduction(findings: StudyFindings, setting: SettingFinding, name: str) -> Curve | None:
    """Steps and (ℓ_SFT − ℓ_PTR) / ℓ_SFT of the means over the seeds that both have; None where no seed has both.

    ``name`` is ``plain_action_loss``, PTR's mean loss, or ``action_loss``, the mean under its weights, which also
    falls where easy chunks get the weight. SFT has no weights.
    """
    study = findings.records.study
    if study.baseline == study.sweep_reference:
        return None
    baseline = findings.records.of(setting.setting, study.baseline)
    reference = findings.records.of(setting.setting, study.sweep_reference)
    pairs = [(baseline[seed], reference[seed]) for seed in baseline if seed in reference]
    losses = paired_curves(pairs, ("action_loss", name))
    if losses is None:
        return None
    steps, plain, weighted = losses
    return steps, (plain - weighted) / plain


def _cells(findings: StudyFindings, setting: SettingFinding) -> list[CellRecord]:
    return list(findings.records.of(setting.setting, findings.records.study.sweep_reference).values())
