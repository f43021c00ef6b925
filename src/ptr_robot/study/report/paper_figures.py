"""The paper's own figures of a study: success under corruption, weights and loss, sweeps, and training by setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptr_robot.study.analysis.findings import SettingFinding, StudyFindings
from ptr_robot.study.analysis.sweeps import Sweep
from ptr_robot.study.cells.record import CellRecord
from ptr_robot.study.report.curves import mean_curve
from ptr_robot.study.report.drawing import add_legend, colour_of, pyplot, use_log_scale, write_figure
from ptr_robot.study.report.success_bars import draw_bars
from ptr_robot.study.report.sweep_figures import draw_hyperparameters
from ptr_robot.study.report.weight_figures import draw_weights_and_loss, weight_shares


@dataclass(frozen=True)
class Panel:
    """A recorded number over the steps."""

    name: str
    title: str
    is_logarithmic: bool = False
    in_its_place: str | None = None  # what is drawn, dotted, of records that lack it
    note: str = ""  # what the legend adds to the setting then


_TRAINING = (
    Panel("accuracy", "identification accuracy"),
    Panel("score_mean", "score T"),
    Panel("plain_action_loss", "action loss ℓ", True, in_its_place="action_loss", note=", under the weights"),
)
_MARGIN = (Panel("token_entropy", "belief token entropy"), Panel("margin", "identification margin"))


def draw_paper_figures(findings: StudyFindings, sweeps: Sequence[Sweep], folder: Path) -> list[Path]:
    """Those that the study has numbers for."""
    study = findings.records.study
    compared = [setting for setting in findings.settings if _cells(findings, setting)]
    drawn = []
    if compared and study.baseline != study.sweep_reference:  # an ablation compares with PTR itself
        drawn.append(draw_bars(findings, compared, folder / "corrupted_bar.png"))
    if compared:
        weighed = [setting for setting in compared if weight_shares(_cells(findings, setting)) is not None]
        if weighed:
            drawn.append(draw_weights_and_loss(findings, weighed, folder / "ptr_vs_sft.png"))
        drawn.append(draw_by_setting(findings, compared, _TRAINING, folder / "training_analysis.png"))
        drawn.append(draw_by_setting(findings, compared, _MARGIN, folder / "margin_entropy.png"))
    for name in dict.fromkeys(sweep.setting for sweep in sweeps):
        chosen = [sweep for sweep in sweeps if sweep.setting == name]
        drawn.append(draw_hyperparameters(chosen, folder / f"hyperparam-{name}.png"))
    return drawn


def draw_by_setting(
    findings: StudyFindings, settings: Sequence[SettingFinding], panels: Sequence[Panel], path: Path
) -> Path:
    """What PTR recorded over the steps, the mean over seeds, one line a setting."""
    size = (4 * len(panels), 3.2)
    figure, grid = pyplot().subplots(1, len(panels), figsize=size, squeeze=False, layout="constrained")
    for axes, panel in zip(grid[0], panels, strict=True):
        for number, setting in enumerate(settings):
            curve, style, label = mean_curve(_cells(findings, setting), panel.name), "-", setting.setting
            if curve is None and panel.in_its_place is not None:
                curve, style = mean_curve(_cells(findings, setting), panel.in_its_place), ":"
                label += panel.note
            if curve is not None:
                axes.plot(*curve, style, label=label, linewidth=1.4, color=colour_of(number, len(settings)))
        if panel.is_logarithmic and axes.lines and axes.dataLim.y0 > 0:
            use_log_scale(axes)
        axes.set_title(panel.title, fontsize=10)
        axes.set_xlabel("step", fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    add_legend(figure, grid[0])
    return write_figure(figure, path)


def _cells(findings: StudyFindings, setting: SettingFinding) -> list[CellRecord]:
    return list(findings.records.of(setting.setting, findings.records.study.sweep_reference).values())
