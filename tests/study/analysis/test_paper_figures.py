"""The paper's figures of made records: numbers recomputed, files written, settings without numbers left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptr_robot.study.analysis.findings import find
from ptr_robot.study.analysis.sweeps import find_sweeps
from ptr_robot.study.report.paper_figures import draw_paper_figures, loss_reduction, normalised_diagnostics
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
