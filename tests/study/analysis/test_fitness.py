"""A setting is fit for a verdict where true labels help, and trained out where more training does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptr_robot.study.analysis.findings import find
from ptr_robot.study.report.figures import draw_figures
from ptr_robot.study.report.tables import success_table
from ptr_robot.study.spec.definition import Study
from ptr_robot.study.spec.definition_file import read_study
from ptr_robot.study.spec.methods import REGISTRY
from tests.study.made_records import made_cell, made_records

METHODS = ["sft", "true-labels", "true-labels-sampler", "true-labels-zero", "sft-double-batch"]
SEEDS = (0, 1, 2, 3)


def headline() -> Study:
    return read_study("headline", {"settings": ["mixed"], "tasks": ["reach"], "methods": METHODS})


def fitness(**rates: float):
    """Every seed has these rates; names with dashes are written with underscores."""
    given = {name.replace("_", "-"): rate for name, rate in rates.items()}
    study = headline()
    cells = [made_cell("mixed", name, seed, {"reach-v3": rate}) for name, rate in given.items() for seed in SEEDS]
    return find(made_records(study, cells)).settings[0]


def test_a_setting_is_fit_where_one_way_of_applying_true_labels_wins():
    found = fitness(sft=0.2, true_labels=0.1, true_labels_sampler=0.9).fitness
    assert found.is_fit is True
    assert found.warning is None
    assert found.verdict.startswith("fit: true labels, weights .25/4 -0.10 [")


def test_a_setting_where_true_labels_do_not_help_says_so_in_tables_and_figures(tmp_path: Path):
    setting = fitness(sft=0.5, true_labels=0.4, true_labels_sampler=0.5)
    assert setting.fitness.is_fit is False
    assert "not fit: even true labels do not help" in success_table(setting, headline()).markdown()
    assert setting.fitness.warning == "not fit: even true labels do not help"


def test_weights_of_zero_are_no_positive_control():
    """They leave episodes out, which no method within the paper's bounds can do."""
    found = fitness(sft=0.2, true_labels_zero=0.9).fitness
    assert found.is_fit is None
    assert found.verdict.startswith("fitness unknown: no row weighs by the true labels")


@pytest.mark.parametrize(("more", "is_trained_out"), [(0.5, True), (0.3, True), (0.6, False)])
def test_trained_out_is_a_lift_below_three_points(more, is_trained_out):
    found = fitness(sft=0.5, sft_double_batch=more).fitness
    assert found.is_trained_out is is_trained_out
    assert ("not trained out" in found.verdict) is (not is_trained_out)


def test_rows_through_the_sampler_say_so_in_a_cell_s_settings():
    for name in ("true-labels-sampler", "paper-sampler", "screened-sampler"):
        assert REGISTRY[name].apply == "sampler"
    assert REGISTRY["sft-double-batch"].trains_like(REGISTRY["sft"])
    assert not REGISTRY["true-labels-sampler"].trains_like(REGISTRY["true-labels"])


def test_figures_carry_the_warning(tmp_path: Path, monkeypatch):
    titles = []
    monkeypatch.setattr(
        "ptr_robot.study.report.figures.write_figure", lambda figure, path: titles.append(figure.get_suptitle()) or path
    )
    study = headline()
    cells = [made_cell("mixed", name, seed, {"reach-v3": 0.5}) for name in METHODS[:2] for seed in SEEDS]
    draw_figures(find(made_records(study, cells)), (), tmp_path)
    assert any("even true labels do not help" in title.replace("\n", " ") for title in titles)
