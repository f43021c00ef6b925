"""The paper's figures of made records: numbers recomputed, files written, settings without numbers left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptr_robot.eval.success_statistics import Interval
from ptr_robot.study.analysis.findings import find
from ptr_robot.study.analysis.sweeps import Sweep, SweepPoint, find_sweeps
from ptr_robot.study.report import drawing, figures, paper_figures, success_bars, sweep_figures, weight_figures
from ptr_robot.study.report.drawing import pyplot
from ptr_robot.study.report.figures import draw_forest
from ptr_robot.study.report.paper_figures import draw_paper_figures
from ptr_robot.study.report.success_bars import draw_bars
from ptr_robot.study.report.sweep_figures import draw_hyperparameters, draw_sweeps, normalised_diagnostics
from ptr_robot.study.report.weight_figures import draw_weights_and_loss, loss_reduction, weight_shares
from ptr_robot.study.spec.definition_file import read_study
from tests.study.made_records import made_cell, made_records

BINS = ("weight_share/0.25", "weight_share/1.00", "weight_share/4.00")


def curves(loss: float, deviation: float = 0.5, score: float = 1.0) -> dict[str, list[float]]:
    shares = dict(zip(BINS, ([0.0, 0.2], [1.0, 0.3], [0.0, 0.5]), strict=True))
    own = {
        "weight_std": [0.0, deviation],
        "score_mean": [0.0, score],
        "margin": [0.1, 0.9],
        "accuracy": [0.1, 0.6],
        "token_entropy": [2.0, 0.1],
        "plain_action_loss": [1.0, 2 * loss],
    }
    return {"step": [10.0, 20.0], "action_loss": [1.0, loss], "num_samples": [8.0, 8.0], **own, **shares}


@pytest.fixture
def drawn(monkeypatch):
    """The figures, in the order in which they would be written."""
    kept = []
    for module in (figures, paper_figures, success_bars, sweep_figures, weight_figures):
        monkeypatch.setattr(module, "write_figure", lambda figure, path: kept.append(figure) or path)
    yield kept
    for figure in kept:
        pyplot().close(figure)


def made_findings(cells, settings=("mixed",)):
    study = read_study("headline", {"settings": list(settings), "tasks": ["reach"], "methods": ["sft", "paper"]})
    return find(made_records(study, cells))


def labels_of(figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


@pytest.fixture
def headline():
    study = read_study("headline", {"settings": ["mixed", "none"], "tasks": ["reach"], "methods": ["sft", "paper"]})
    cells = [
        made_cell(setting, name, seed, {"reach-v3": rate}, curves=curves(loss))
        for setting in ("mixed", "none")
        for name, rate, loss in (("sft", 0.4, 0.8), ("paper", 0.6, 0.6))
        for seed in (0, 1)
    ]
    return find(made_records(study, cells))


def test_the_loss_that_ptr_saves(headline):
    steps, saved = loss_reduction(headline, headline.settings[0], "action_loss")
    assert steps.tolist() == [10.0, 20.0]
    assert saved.tolist() == pytest.approx([0.0, 0.25])
    _, saved = loss_reduction(headline, headline.settings[0], "plain_action_loss")
    assert saved.tolist() == pytest.approx([0.0, -0.5])
    assert loss_reduction(headline, headline.settings[0], "unheard of") is None


def test_an_ablation_is_not_compared_with_itself(tmp_path: Path):
    study = read_study("ablation", {"settings": ["mixed"], "tasks": ["reach"], "methods": ["paper", "no-ema"]})
    cells = [made_cell("mixed", name, 0, {"reach-v3": 0.4}, curves=curves(0.5)) for name in ("paper", "no-ema")]
    findings = find(made_records(study, cells))
    assert study.baseline == study.sweep_reference == "paper"
    drawn = [path.name for path in draw_paper_figures(findings, (), tmp_path)]
    assert drawn == ["ptr_vs_sft.png", "training_analysis.png", "margin_entropy.png"]
    assert loss_reduction(findings, findings.settings[0], "action_loss") is None


def test_every_figure_is_written(headline, tmp_path: Path):
    drawn = draw_paper_figures(headline, (), tmp_path)
    assert [path.name for path in drawn] == [
        "corrupted_bar.png",
        "ptr_vs_sft.png",
        "training_analysis.png",
        "margin_entropy.png",
    ]
    assert all(path.stat().st_size > 5000 for path in drawn)


def test_without_ptr_there_is_nothing_to_draw(tmp_path: Path):
    study = read_study("headline", {"settings": ["mixed"], "tasks": ["reach"], "methods": ["sft"]})
    cells = [made_cell("mixed", "sft", 0, {"reach-v3": 0.4})]
    assert draw_paper_figures(find(made_records(study, cells)), (), tmp_path) == []


def test_each_diagnostic_is_divided_by_its_largest(tmp_path: Path):
    names = {"paper": (0.4, 0.5, 1.0), "beta-1.0": (0.8, 0.25, 2.0)}
    study = read_study("sweep", {"tasks": ["reach"]})
    cells = [
        made_cell("mixed", name, 0, {"reach-v3": rate}, curves=curves(0.5, deviation, score))
        for name, (rate, deviation, score) in names.items()
    ]
    records = made_records(study, cells)
    (sweep,) = [sweep for sweep in find_sweeps(records) if len(sweep.points) == 2]
    success, score, stability = normalised_diagnostics(sweep)  # in the order of beta: 1.0, 1.5
    np.testing.assert_allclose([success, score, stability], [[1.0, 0.5], [1.0, 0.5], [1.0, 0.5]])
    drawn = draw_paper_figures(find(records), find_sweeps(records), tmp_path)
    assert "hyperparam-mixed.png" in {path.name for path in drawn}


RATES = {"sft": {0: 0.9, 1: 0.2, 2: 0.3}, "paper": {1: 0.3, 2: 0.6, 3: 0.0}}


def unequal_seeds(losses=None):
    return [
        made_cell("mixed", name, seed, {"reach-v3": rate}, curves=curves((losses or {}).get((name, seed), 0.5)))
        for name, rates in RATES.items()
        for seed, rate in rates.items()
    ]


def test_bars_and_their_badge_are_of_the_same_seeds(drawn, tmp_path: Path):
    findings = made_findings(unequal_seeds())
    draw_bars(findings, findings.settings, tmp_path / "bars.png")
    (axes,) = drawn[0].axes
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([0.25, 0.45])
    assert [text.get_text() for text in axes.texts] == ["+0.20"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["mixed\n2 seeds"]


def test_bars_of_no_common_seed_have_no_badge(drawn, tmp_path: Path):
    rates = {("sft", 0): 0.4, ("paper", 1): 0.6}
    findings = made_findings([made_cell("mixed", *key, {"reach-v3": rate}) for key, rate in rates.items()])
    draw_bars(findings, findings.settings, tmp_path / "bars.png")
    (axes,) = drawn[0].axes
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([0.4, 0.6])
    assert not axes.texts


def test_the_legend_has_the_baseline_though_the_first_setting_lacks_it(drawn, tmp_path: Path):
    places = [("mixed", "paper"), ("none", "sft"), ("none", "paper")]
    cells = [made_cell(setting, name, 0, {"reach-v3": 0.5}) for setting, name in places]
    findings = made_findings(cells, ("mixed", "none"))
    draw_bars(findings, findings.settings, tmp_path / "bars.png")
    assert labels_of(drawn[0]) == ["SFT", "PTR, as published"]


def test_the_loss_saved_is_of_the_seeds_that_both_have():
    losses = {("sft", 0): 100.0, ("sft", 1): 1.0, ("sft", 2): 2.0, ("paper", 1): 0.5, ("paper", 2): 1.0}
    findings = made_findings(unequal_seeds({**losses, ("paper", 3): 100.0}))
    _, saved = loss_reduction(findings, findings.settings[0], "action_loss")
    assert saved[-1] == pytest.approx((1.5 - 0.75) / 1.5)


def test_a_seed_without_a_number_at_a_step_is_left_out_of_both_losses_there():
    cells = unequal_seeds({("sft", 1): 1.0, ("paper", 1): 0.5})
    lacking = next(cell for cell in cells if (cell.method, cell.seed) == ("paper", 2))
    lacking.curves["action_loss"] = [1.0, None]
    findings = made_findings(cells)
    _, saved = loss_reduction(findings, findings.settings[0], "action_loss")
    assert saved[-1] == pytest.approx(0.5)


def test_the_action_loss_by_setting_is_plain_and_on_a_log_scale(drawn, headline, tmp_path: Path):
    draw_paper_figures(headline, (), tmp_path)
    *_, panel = drawn[2].axes
    assert (panel.get_title(), panel.get_yscale()) == ("action loss ℓ", "log")
    assert panel.lines[0].get_ydata()[-1] == pytest.approx(1.2)  # twice the weighted one
    assert labels_of(drawn[2]) == ["mixed", "none"]


def test_records_without_the_plain_loss_are_drawn_dotted_and_named_so(drawn, tmp_path: Path):
    old = curves(0.6)
    del old["plain_action_loss"]
    findings = made_findings([made_cell("mixed", "paper", 0, {"reach-v3": 0.5}, curves=old)])
    draw_paper_figures(findings, (), tmp_path)
    *_, panel = drawn[2].axes
    assert [line.get_linestyle() for line in panel.lines] == [":"]
    assert labels_of(drawn[2]) == ["mixed", "mixed, under the weights"]


def test_a_loss_below_zero_is_drawn_on_a_linear_scale(drawn, tmp_path: Path):
    below = curves(0.6) | {"plain_action_loss": [1.0, -1.0]}
    findings = made_findings([made_cell("mixed", "paper", 0, {"reach-v3": 0.5}, curves=below)])
    draw_paper_figures(findings, (), tmp_path)
    assert drawn[2].axes[-1].get_yscale() == "linear"


def test_bars_of_weights_lie_between_their_labelled_edges(drawn, headline, tmp_path: Path):
    draw_weights_and_loss(headline, headline.settings, tmp_path / "weights.png")
    axes = drawn[0].axes[0]
    assert [bar.get_x() for bar in axes.patches[:3]] == pytest.approx([0, 1, 2])
    assert [bar.get_width() for bar in axes.patches[:3]] == pytest.approx([1, 1, 1])
    ticks = dict(zip(axes.get_xticks(), [label.get_text() for label in axes.get_xticklabels()], strict=True))
    assert ticks == {0: "0.25", 3: "16"}  # three bins, each to four times its lower edge


def test_the_recorded_bins_end_at_four():
    edges = [2 ** (number / 4 - 2) for number in range(16)]
    recorded = {"weight_std": [0.1], **{f"weight_share/{edge:.2f}": [1 / 16] for edge in edges}}
    found = weight_shares([made_cell("mixed", "paper", 0, {"reach-v3": 0.5}, curves=recorded)])
    assert found.edges[-1] == pytest.approx(4, rel=0.01)


def test_shares_of_weights_are_means_over_the_seeds_that_have_them():
    late = dict(zip(BINS, ([0.0, 0.0, None], [1.0, 0.0, None], [0.0, 1.0, None]), strict=True))
    seeds = [{"step": [1.0, 2.0], "weight_std": [0.0, 0.5]}, curves(0.5), {"weight_std": [0.0, 0.2, None], **late}]
    cells = [made_cell("mixed", "paper", n, {"reach-v3": 0.5}, curves=own) for n, own in enumerate(seeds)]
    found = weight_shares(cells)
    np.testing.assert_allclose(found.early, [0.1, 0.15, 0.75])
    np.testing.assert_allclose(found.late, [0.1, 0.15, 0.75])
    assert weight_shares(cells[:1]) is None


def made_sweep(*values: float) -> Sweep:
    success = Interval(0.5, float("nan"), float("nan"), 0.95)
    points = [SweepPoint(value, "paper", success, -1.0 - value, 0.5, value == values[0]) for value in values]
    return Sweep("mixed", "α", "weights.alpha", tuple(points))


@pytest.mark.parametrize("draw", [draw_sweeps, draw_hyperparameters])
def test_every_value_of_a_sweep_has_its_tick_and_the_default_is_dashed(draw, drawn, tmp_path: Path):
    draw([made_sweep(0.5, 1.0, 2.0), made_sweep(0.0, 1.0), made_sweep(1.5)], tmp_path / "sweeps.png")
    positive, with_zero, alone = drawn[0].axes
    assert [label.get_text() for label in positive.get_xticklabels()] == ["0.5", "1", "2"]
    assert positive.get_xticks().tolist() == [0.5, 1.0, 2.0]
    assert [label.get_text() for label in with_zero.get_xticklabels()] == ["0", "1"]
    assert [axes.get_xscale() for axes in drawn[0].axes] == ["log", "linear", "linear"]  # zero has no logarithm
    assert (alone.get_xlim(), alone.get_xticks().tolist()) == ((-0.5, 0.5), [0.0])  # one value stands in the middle
    dashed = [line for line in positive.lines if line.get_linestyle() == "--" and len(line.get_xdata()) == 2]
    assert [list(line.get_xdata()) for line in dashed] == [[0.5, 0.5]]


def test_scores_below_zero_stay_there_when_they_are_divided():
    _, score, _ = normalised_diagnostics(made_sweep(0.0, 1.0))
    assert score.tolist() == [-0.5, -1.0]


def test_little_differences_look_little(drawn, headline, tmp_path: Path):
    draw_forest(headline.settings[0], tmp_path / "forest.png", "sft", ())
    low, high = drawn[0].axes[0].get_xlim()
    assert (low, high) == (pytest.approx(-0.1), pytest.approx(high))
    assert len(drawn[0].axes[0].get_xticks()) <= 8


def test_a_difference_names_the_seeds_that_it_is_of(drawn, tmp_path: Path):
    findings = made_findings(unequal_seeds())
    draw_forest(findings.settings[0], tmp_path / "forest.png", "sft", ())
    (label,) = drawn[0].axes[0].get_yticklabels()
    assert label.get_text() == "PTR, as published (2 seeds)"


def test_more_settings_than_colours_of_the_cycle_have_one_each():
    colours = [drawing.colour_of(number, 13) for number in range(13)]
    assert len(set(colours)) == 13
