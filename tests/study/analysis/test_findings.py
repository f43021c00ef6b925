"""Tables of made records: every number recomputed from the records by plain arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from ptr_robot.study.analysis.findings import find
from ptr_robot.study.analysis.pooling import find_pooling, pooling_table
from ptr_robot.study.analysis.sweeps import find_sweeps, sweep_table, swept_methods
from ptr_robot.study.cells.scored_episode import ScoredEpisode
from ptr_robot.study.report.curves import mean_curve
from ptr_robot.study.report.figures import draw_figures
from ptr_robot.study.report.study_report import write_report
from ptr_robot.study.report.tables import detection_table, overview_table, success_table, weight_table
from ptr_robot.study.spec.definition_file import read_study
from tests.study.made_records import made_cell, made_records

RATES = {
    "sft": {0: 0.3, 1: 0.4, 2: 0.4},
    "paper": {0: 0.5, 1: 0.5, 2: 0.6},
    "clean": {0: 0.8, 1: 0.9, 2: 0.9},
    "placebo-of-mine": {0: 0.4},
}
SCORED = (
    ScoredEpisode(0, 0, "a", ("jitter",), 1.0, 0.5),
    ScoredEpisode(0, 1, "a", (), 2.0, 1.5),
    ScoredEpisode(0, 2, "a", (), 0.5, 1.0),
)


@pytest.fixture(scope="module")
def headline():
    methods = ["sft", "paper", "clean"]
    study = read_study("headline", {"settings": ["mixed"], "tasks": ["push", "reach"], "methods": methods})
    cells = [
        made_cell(
            "mixed", name, seed, {"push-v3": rate, "reach-v3": rate + 0.1}, scored_episodes=SCORED, auroc=_auroc(name)
        )
        for name, rates in RATES.items()
        for seed, rate in rates.items()
    ]
    return made_records(study, cells)


def _auroc(name: str) -> dict:
    return {"score": {"any": 0.5, "jitter": 0.5}} if name == "paper" else {}


def test_one_row_a_method_with_its_differences(headline) -> None:
    (setting,) = find(headline).settings
    assert [row.method for row in setting.methods] == ["sft", "paper", "clean"]
    paper = setting.methods[1]
    assert paper.success.estimate == pytest.approx((0.55 + 0.55 + 0.65) / 3)
    assert paper.success_by_task == pytest.approx({"push-v3": 1.6 / 3, "reach-v3": 1.9 / 3})
    assert paper.difference.estimate == pytest.approx((0.2 + 0.1 + 0.2) / 3)
    assert paper.gap_share.estimate == pytest.approx(0.5 / 1.5)
    assert paper.difference_bootstrap.estimate == pytest.approx((0.2 + 0.1 + 0.2) / 3)
    assert 0 < paper.difference_bootstrap.low < paper.difference.estimate < paper.difference_bootstrap.high
    assert setting.gap.estimate == pytest.approx(0.5)
    assert setting.methods[0].difference is None
    assert paper.num_episodes == 60


def test_episodes_are_paired_by_task_and_layout_in_whatever_order_they_were_run() -> None:
    study = read_study("headline", {"settings": ["mixed"], "tasks": ["push", "reach"], "methods": ["sft", "paper"]})
    cells = [made_cell("mixed", "sft", seed, {"push-v3": 0.3, "reach-v3": 0.6}) for seed in (0, 1)]
    backwards = [replace(cell, method="paper", episodes=cell.episodes[::-1]) for cell in cells]
    (setting,) = find(made_records(study, [*cells, *backwards])).settings
    same = setting.methods[1].difference_bootstrap  # each layout ends as it did for the baseline
    assert (same.estimate, same.low, same.high) == (0, 0, 0)


def test_weights_of_good_and_faulty_episodes_are_means_over_seeds() -> None:
    study = read_study("headline", {"settings": ["mixed"], "methods": ["sft", "paper"]})
    weights = [{"good": 1.5, "faulty": 0.5}, {"good": 2.0, "faulty": 0.75}, {"good": 1.0, "faulty": None}]
    cells = [
        made_cell("mixed", "paper", seed, {"push-v3": 0.5}, mean_weight=mean, num_training_episodes=40)
        for seed, mean in enumerate(weights)
    ]
    cells.append(made_cell("mixed", "sft", 0, {"push-v3": 0.5}))
    (setting,) = find(made_records(study, cells)).settings
    sft, paper = setting.methods
    assert (paper.weight_good, paper.weight_faulty) == (1.5, 0.625)
    assert (sft.weight_good, sft.weight_faulty) == (None, None)
    assert [row[1:] for row in weight_table(setting).rows] == [("40", "1.50", ".62")]


def test_the_table_says_the_same(headline) -> None:
    (setting,) = find(headline).settings
    table = success_table(setting, headline.study)
    assert table.rows[0][1:] == ("0.42 [.27, .56]".replace("0.", "."), "–", "–")
    assert table.rows[1][1].startswith(".58 [")
    assert table.rows[1][2] == "+.17 [+.02, +.31]"
    assert f"Every row trains the policy preset {headline.study.policy.preset}." in table.note
    assert table.rows[1][3].startswith("33% [")
    assert table.rows[2][2] == "+.50 [+.36, +.61]"  # equal on all seeds: what 60 episodes leave open
    assert "3 seeds of 20 evaluation episodes" in table.note
    assert table.markdown().splitlines()[2] == "| method | success | against sft | gap share |"


def test_detection_has_a_column_a_fault_with_its_count(headline) -> None:
    (setting,) = find(headline).settings
    table = detection_table(setting)
    assert table.columns == ("AUROC", "any (1)", "jitter (1)")
    assert table.rows == (("PTR, as published: score", ".50", ".50"),)


def test_a_sweep_is_made_of_rows_that_differ_in_one_setting(tmp_path: Path) -> None:
    study = read_study("sweep")
    assert [value for value, _ in swept_methods(study, "weights.beta")] == [0.5, 1.0, 1.5, 3.0]
    assert dict(swept_methods(study, "weights.w_max"))[4.0] == "paper"
    curves = {"step": [1, 2], "score_mean": [0.0, 2.0], "weight_std": [0.0, 0.5]}
    cells = [
        made_cell("mixed", row.name, s, {"push-v3": 0.1 * (s + 1)}, curves=curves)
        for row in study.methods
        for s in (0, 1)
    ]
    records = made_records(study, cells)
    sweeps = find_sweeps(records)
    assert [sweep.name for sweep in sweeps] == ["τ₀", "β₀", "w_max"]
    point = sweeps[1].points[0]
    assert (point.value, point.score, point.weight_deviation) == (0.5, 2.0, 0.5)
    assert point.success.estimate == pytest.approx(0.15)
    assert sum(point.is_reference for point in sweeps[0].points) == 1
    assert any("β₀ = 1.5 (reference)" in row[0] for row in sweep_table(sweeps).rows)
    assert tmp_path / "sweeps-mixed.png" in draw_figures(find(records), sweeps, tmp_path)


def test_a_generalist_is_compared_with_the_specialist_of_each_task() -> None:
    study = read_study("generalist", {"methods": ["sft", "paper"]})
    tasks = {name: study.tasks_of(setting)[0] for name, setting in study.settings.items() if not setting.pool}
    cells = []
    for seed in (0, 1):
        for place, (name, task) in enumerate(tasks.items()):
            cells.append(made_cell(name, "sft", seed, {task: 0.2 + 0.1 * place}))
        cells.append(made_cell("pooled", "sft", seed, dict.fromkeys(tasks.values(), 0.5 + 0.1 * seed)))
    cells.append(made_cell("pooled", "paper", 0, dict.fromkeys(tasks.values(), 1.0)))  # it has no specialists yet
    (finding,) = find_pooling(made_records(study, cells))
    assert finding.method == "sft"
    assert finding.specialist.estimate == pytest.approx(0.35)
    assert finding.generalist.estimate == pytest.approx(0.55)
    assert finding.difference.estimate == pytest.approx(0.2)
    assert finding.specialist_by_task[tasks["coffee-push"]] == pytest.approx(0.3)
    table = pooling_table((finding,), study)
    assert len(table.rows) == 2
    assert table.rows[1][-1].startswith("+.20 [")


def test_curves_are_means_over_seeds() -> None:
    numbers = {"step": [10, 20], "num_samples": [8, 8], "effective_sample_size": [8.0, 4.0], "kl": [0.0, 1.0]}
    cells = [
        made_cell("a", "paper", seed, {"push-v3": 0.5}, curves={**numbers, "beta": [1.5, 1.0 + seed]})
        for seed in (0, 1)
    ]
    assert mean_curve(cells, "beta")[1].tolist() == [1.5, 1.5]
    assert mean_curve(cells, "effective_share")[1].tolist() == [1.0, 0.5]
    assert mean_curve(cells, "weight_entropy")[1][0] == 1.0
    assert mean_curve(cells, "margin") is None


def test_weight_entropy_is_of_the_weights_as_shares() -> None:
    batches = [[1.0, 1.0, 1.0, 1.0], [4.0, 1.0, 0.5, 0.25], [0.25, 4.0, 4.0, 4.0, 1.0]]
    divergences, entropies = [], []
    for weights in batches:
        shares = [weight / sum(weights) for weight in weights]
        divergences.append(sum(share * math.log(share * len(shares)) for share in shares))
        entropies.append(-sum(share * math.log(share) for share in shares) / math.log(len(shares)))
    curves = {"step": [1, 2, 3], "num_samples": [len(weights) for weights in batches], "kl": divergences}
    steps, curve = mean_curve([made_cell("a", "paper", 0, {"push-v3": 0.5}, curves=curves)], "weight_entropy")
    assert steps.tolist() == [1, 2, 3]
    assert curve.tolist() == pytest.approx(entropies)


def test_dynamics_are_drawn(tmp_path: Path) -> None:
    study = read_study("dynamics")
    numbers = {
        "step": [10, 20],
        "num_samples": [8, 8],
        "action_loss": [1.0, 0.5],
        "beta": [1.5, 1.4],
        "kl": [0.0, None],
    }
    cells = [made_cell("clean", row.name, 0, {"push-v3": 0.5}, curves=numbers) for row in study.methods]
    write_report(made_records(study, cells), tmp_path)
    assert (tmp_path / "figures" / "dynamics-clean.png").stat().st_size > 10_000


def test_the_overview_has_every_setting_and_means_of_whole_rows() -> None:
    study = read_study("headline", {"settings": ["mixed", "none"], "tasks": ["reach"], "methods": ["sft", "paper"]})
    cells = [
        made_cell(setting, name, 0, {"reach-v3": success})
        for setting, name, success in (("mixed", "sft", 0.4), ("none", "sft", 0.8), ("mixed", "paper", 0.5))
    ]
    table = overview_table(find(made_records(study, cells)))
    assert table.columns == ("success by setting", "mixed", "none", "mean")
    assert [row[1:] for row in table.rows] == [(".40", ".80", ".60"), (".50", "–", "–")]
    assert overview_table(find(made_records(study, cells[:1]))) is None
