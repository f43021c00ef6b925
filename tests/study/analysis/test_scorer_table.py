"""Where scorers ended, by the last tenth of their records, over the seeds that have them."""

from __future__ import annotations

from pathlib import Path

from ptr_robot.study.analysis.findings import find
from ptr_robot.study.report.scorer_table import scorer_table
from ptr_robot.study.spec.definition_file import read_study
from tests.study.made_records import made_cell, made_records
from tests.study.spec.test_definition import study_file


def curves(last: float) -> dict[str, list[float | None]]:
    """Twenty records, of which the last two end at ``last``."""
    numbers: list[float | None] = [*[0.0] * 18, last - 0.1, last + 0.1]
    return {"step": list(range(20)), "accuracy": numbers, "margin": [-value for value in numbers], "beta": [3.0] * 20}


def test_a_row_for_each_method_with_a_scorer(tmp_path: Path) -> None:
    study = read_study(study_file(tmp_path, settings={"a": {}}, methods=["sft", "paper"], seeds=[0, 1]))
    rates = {"reach-v3": 0.5}
    cells = [made_cell("a", "sft", seed, rates) for seed in (0, 1)]
    cells += [made_cell("a", "paper", seed, rates, curves=curves(0.2 + 0.2 * seed)) for seed in (0, 1)]
    records = made_records(study, cells)
    table = scorer_table(find(records).settings[0], records.done)
    assert table is not None
    title = next(row.label for row in study.methods if row.name == "paper")
    assert table.rows == ((title, "0.30", "−0.30", "–", "–", "3.00", "–"),)


def test_none_where_nothing_is_scored(tmp_path: Path) -> None:
    study = read_study(study_file(tmp_path, settings={"a": {}}, methods=["sft"], seeds=[0]))
    records = made_records(study, [made_cell("a", "sft", 0, {"reach-v3": 0.5})])
    assert scorer_table(find(records).settings[0], records.done) is None
