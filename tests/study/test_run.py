"""A whole study at its smallest: real demonstrations, trainings and rollouts, then the tables; twice, and changed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ptr_robot.cli.main import run
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.study.cells.cell import Cell
from ptr_robot.study.cells.plan import plan_cells
from ptr_robot.study.cells.record import read_record, record_path, write_record
from ptr_robot.study.engine.jobs import with_needed
from ptr_robot.study.report.study_report import print_report, write_report
from ptr_robot.study.run import read_study_records
from ptr_robot.study.spec.definition_file import read_study
from tests.study.made_records import made_cell, made_records

pytestmark = pytest.mark.slow

FLAGS = ["--seeds=[0]", "--methods=[sft,paper,clean,filter-knn]"]
OVERRIDES = {"seeds": [0], "methods": ["sft", "paper", "clean", "filter-knn"]}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study") / "smoke"
    assert run(["study", "smoke", f"--output_dir={folder}", "--num_workers=2", *FLAGS]) == 0
    return folder


def remaining(root: Path, **changes) -> list[str]:
    """The keys of what would be done with other settings."""
    study = read_study("smoke", {**OVERRIDES, **changes})
    return [job.key if isinstance(job, Cell) else type(job).__name__ for job in with_needed(plan_cells(study, root))]


def test_every_cell_has_a_record_that_says_how_it_came_about(root: Path) -> None:
    study = read_study("smoke", OVERRIDES)
    layouts = set()
    for cell in plan_cells(study, root):
        content = json.loads(record_path(root, cell.setting, cell.row.name, cell.seed).read_text())
        assert content["identity"] == cell.identity
        assert content["success_by_task"]["reach-v3"]["episodes"] == study.evaluation.episodes
        assert {"prepare", "train", "evaluate", "record"} == set(content["seconds"])
        assert {"torch", "lerobot", "metaworld", "ptr-robot"} <= set(content["versions"])
        assert content["curves"]["step"] == [2, 4, 6]
        layouts.add(tuple((episode["task"], episode["seed"]) for episode in content["episodes"]))
    assert len(layouts) == 1  # the same for every method


def test_filters_and_weights_are_recorded_beside_the_truth(root: Path) -> None:
    clean = read_record(record_path(root, "mixed", "clean", 0))
    assert all((episode.weight == 0.0) == bool(episode.faults) for episode in clean.scored_episodes)
    assert clean.auroc["weight"]["any"] == 1.0
    knn = read_record(record_path(root, "mixed", "filter-knn", 0))
    assert knn.num_training_episodes == sum(episode.weight == 1.0 for episode in knn.scored_episodes) == 2
    kept = [episode.score for episode in knn.scored_episodes if episode.weight]
    assert min(kept) >= max(episode.score for episode in knn.scored_episodes if not episode.weight)
    paper = read_record(record_path(root, "mixed", "paper", 0))
    assert all(0.25 <= episode.weight <= 4.0 for episode in paper.scored_episodes if episode.weight is not None)
    sft = read_record(record_path(root, "mixed", "sft", 0))
    assert all(episode.weight is None for episode in sft.scored_episodes)
    assert sft.auroc == {"score": dict.fromkeys(paper.auroc["score"])} | {"weight": sft.auroc["weight"]}


def test_checkpoints_do_not_stay(root: Path) -> None:
    assert not list(root.glob("runs/**/*.safetensors"))


def test_a_second_run_does_nothing(root: Path, capsys: pytest.CaptureFixture) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.glob("records/**/*.json")}
    logs = {path: path.read_bytes() for path in root.glob("logs/*")}
    assert run(["study", "smoke", f"--output_dir={root}", *FLAGS]) == 0
    assert {path: path.stat().st_mtime_ns for path in root.glob("records/**/*.json")} == before
    assert {path: path.read_bytes() for path in root.glob("logs/*")} == logs
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("PTR, as published", "against sft", "AUROC", "tables.md"))
    assert max(len(line) for line in shown.splitlines() if "tables.md" not in line) <= 80


def test_only_what_a_change_concerns_is_done_again(root: Path) -> None:
    assert remaining(root) == []
    cells = [f"mixed/{name}/0" for name in OVERRIDES["methods"]]
    assert remaining(root, evaluation={"episodes": 3}) == cells  # no data, no rule
    assert remaining(root, training={"steps": 7}) == cells
    assert remaining(root, methods=["sft", "paper", "aux-only"]) == ["mixed/aux-only/0"]
    assert remaining(root, policy={"chunk_length": 8}, evaluation={"n_action_steps": 8}).count("RuleJob") == 1
    assert remaining(root, demonstrations={"episodes": 5}).count("CollectJob") == 1
    added = remaining(root, seeds=[0, 1])
    assert added.count("CollectJob") == 1
    assert {key for key in added if "/" in key} == {f"mixed/{name}/1" for name in OVERRIDES["methods"]}


def test_tables_and_numbers_agree(root: Path) -> None:
    report = write_report(read_study_records(read_study("smoke", OVERRIDES), root), root)
    results = json.loads((root / "results.json").read_text())
    text = (root / "tables.md").read_text()
    assert results["num_done"] == 4
    for method in results["settings"]["mixed"]["methods"]:
        record = read_record(record_path(root, "mixed", method["method"], 0))
        rate = np.mean([episode.is_success for episode in record.episodes])
        assert method["success"]["estimate"] == pytest.approx(rate)
        assert method["title"] in text
    assert all(table.title in text for table in report.tables)
    figures = {path.name for path in (root / "figures").glob("*.png")}
    assert {"differences-mixed.png", "auroc.png"} <= figures


def test_a_failed_cell_is_reported_and_tried_again(root: Path, tmp_path: Path) -> None:
    study = read_study("smoke", OVERRIDES)
    cell = plan_cells(study, root)[0]
    record = cell.read()
    try:
        cell.fail("the lights went out")
        records = read_study_records(study, root)
        assert [failed.reason for failed in records.failed] == ["the lights went out"]
        report = write_report(records, root)
        console = Console(record=True, width=80, file=(tmp_path / "shown").open("w"))
        print_report(report, console)
        assert "mixed/sft/0 failed: the lights went out" in console.export_text()
        assert remaining(root) == [cell.key]
        assert run(["study", "smoke", f"--output_dir={root}", "--report_only", *FLAGS]) == 1
    finally:
        write_record(root, record)
    assert remaining(root) == []


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    with pytest.raises(ConfigError, match="choose another --output_dir"):
        run(["study", "smoke", f"--output_dir={tmp_path}"])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run it without --report_only"):
        run(["study", "smoke", f"--output_dir={tmp_path / 'empty'}", "--report_only"])


def test_a_study_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"which study.*corruption"):
        run(["study"])


def test_results_of_two_versions_of_a_library_are_pointed_out(tmp_path: Path) -> None:
    study = read_study("smoke")
    setting, method = next(iter(study.settings)), study.methods[0].name
    cells = [
        made_cell(setting, method, seed, {"reach-v3": 0.5}, versions={"mujoco": f"3.{seed}", "torch": "2"})
        for seed in (0, 1)
    ]
    write_report(made_records(study, cells), tmp_path)
    text = (tmp_path / "tables.md").read_text()
    assert "cells were run with mujoco 3.0, 3.1: differences between them may be the library's." in text
    assert "torch 2" not in text


def test_records_of_version_0_1_are_read(root: Path, tmp_path: Path) -> None:
    """Which called the seed of an evaluation episode its layout, and scored episodes judged."""
    path = record_path(root, "mixed", "sft", 0)
    content = json.loads(path.read_text())
    content["episodes"] = [{**e, "layout": e["seed"]} for e in content["episodes"]]
    for episode in content["episodes"]:
        del episode["seed"]
    content["judged"] = content.pop("scored_episodes")
    old = tmp_path / "0.json"
    old.write_text(json.dumps(content))
    assert read_record(old) == read_record(path)
