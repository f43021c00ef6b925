"""The demo at its smallest: real demonstrations, trainings and rollouts, then the table, the figures and the page."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from ptr_robot.cli.main import run
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.study.cells.cell import Cell
from ptr_robot.study.cells.plan import plan_cells
from ptr_robot.study.cells.record import FAILED, record_path, write_record
from ptr_robot.study.demo import DemoFindings, FailedDemoError, read_demo, read_findings
from ptr_robot.study.engine.jobs import with_needed
from ptr_robot.study.report.demo_report import comparison_rows, write_report
from ptr_robot.train.records import read_records
from tests.audit.test_page import read_island

pytestmark = pytest.mark.slow

STUDY = read_demo("smoke", seed=0)
SMOKE = ("--scale=smoke", "--num_workers=1")  # each is seconds of imports; a study is tried with two


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "demo"
    assert run(["demo", f"--output_dir={folder}", *SMOKE]) == 0
    return folder


@pytest.fixture(scope="module")
def findings(root: Path) -> DemoFindings:
    return read_findings(STUDY, root)


def cells(root: Path) -> dict[str, Cell]:
    return {cell.row.name: cell for cell in plan_cells(STUDY, root, keeps_checkpoints=True)}


def train_config(cell: Cell) -> dict:
    return json.loads((cell.run_folder / "train_config.json").read_text())


def test_every_method_has_the_same_start_steps_and_layouts(root: Path) -> None:
    settings, episodes = set(), set()
    for cell in cells(root).values():
        config, record = train_config(cell), cell.read()
        settings.add(json.dumps([config[name] for name in ("seed", "steps", "batch_size", "optimizer")]))
        episodes.add(tuple((episode.task, episode.seed) for episode in record.episodes))
    assert len(settings) == len(episodes) == 1


def test_the_upper_bound_sees_no_marked_episode(root: Path, findings: DemoFindings) -> None:
    chosen = train_config(cells(root)["clean"])["dataset"]["episodes"]
    assert chosen == [number for number, truth in findings.truths.items() if not truth.faults]
    assert 0 < len(chosen) < len(findings.truths)


def test_run_twice_it_does_nothing_twice(root: Path, capsys: pytest.CaptureFixture) -> None:
    before = {path: path.stat().st_mtime_ns for path in [*root.glob("records/**/*.json"), *root.glob("runs/*/*/*")]}
    assert run(["demo", f"--output_dir={root}", *SMOKE]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    shown = capsys.readouterr().out
    assert all(
        word in shown for word in ("SFT", "PTR, as published", "SFT, screened", "gap share", "One training seed")
    )


def test_an_interrupted_training_is_gone_on_with(root: Path) -> None:
    """It has a checkpoint of half its steps, and neither scores nor a record yet."""
    cell, half = cells(root)["sft"], STUDY.training.steps // 2
    whole = [record["action_loss"] for record in read_records(cell.run_folder)]
    stage, settings = cell.run_stage, cell.run_folder / "train_config.json"
    config = root.parent / "config.json"
    config.write_bytes(settings.read_bytes())
    stage.begin()
    assert run(["train", f"--config_path={config}", f"--save_freq={half}"]) == 0
    checkpoints, scores = stage.output / "checkpoints", stage.output / "episode_scores.parquet"
    shutil.rmtree(checkpoints / f"{STUDY.training.steps:06d}")
    (checkpoints / "last").unlink()
    scores.unlink()
    record_path(root, cell.setting, "sft", cell.seed).unlink()
    assert run(["demo", f"--output_dir={root}", *SMOKE]) == 0
    starts = json.loads((stage.output / "run.json").read_text())["starts"]
    assert [start["first_step"] for start in starts] == [0, half]
    assert [record["action_loss"] for record in read_records(stage.output)] == whole
    assert (checkpoints / "last").resolve().name == f"{STUDY.training.steps:06d}"
    assert scores.is_file()
    assert cell.is_done()


def test_it_ends_with_the_report_on_its_demonstrations(root: Path, findings: DemoFindings, capsys) -> None:
    page = root / "audit" / findings.dataset.name / "ptr_report.html"
    assert len(read_island(page.read_text(), "page")["episodes"]) == len(findings.truths)
    scores = page.with_name("ptr_episodes.parquet")
    before = scores.stat().st_mtime_ns
    assert run(["demo", f"--output_dir={root}", *SMOKE]) == 0
    assert f"open {page}" in capsys.readouterr().out
    assert scores.stat().st_mtime_ns == before  # scored once


def test_another_seed_is_other_work(root: Path) -> None:
    assert with_needed(plan_cells(STUDY, root)) == []
    assert len(with_needed(plan_cells(read_demo("smoke", seed=1), root))) == 1 + len(STUDY.methods)


def test_the_table_and_the_file_agree(root: Path, findings: DemoFindings) -> None:
    record = json.loads((root / "comparison.json").read_text())
    rows = comparison_rows(findings.comparison)
    assert [row[0] for row in rows] == ["SFT", "PTR, as published", "SFT, screened", "SFT, clean part"]
    for method, row in zip(STUDY.methods, rows, strict=True):
        assert row[1].startswith(f"{record['methods'][method.name]['success']['estimate']:.2f} [")


def test_the_page_stands_alone_and_escapes_what_comes_from_data(root: Path, findings: DemoFindings) -> None:
    hostile = "<script>alert('operator')</script>"
    truths = {n: dataclasses.replace(truth, operator=hostile) for n, truth in findings.truths.items()}
    page = write_report(dataclasses.replace(findings, truths=truths)).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page
    assert page.count("data:image/png;base64,") == len(list((root / "figures").glob("*.png"))) >= 7


def test_a_part_that_failed_is_named(root: Path) -> None:
    cell = cells(root)["paper"]
    done = cell.read()
    try:
        write_record(root, dataclasses.replace(done, status=FAILED, reason="the disk is full"))
        with pytest.raises(FailedDemoError, match=r"paper: the disk is full; .*logs"):
            read_findings(STUDY, root)
    finally:
        write_record(root, done)


def test_a_demo_of_version_0_1_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demonstrations" / "meta").mkdir(parents=True)
    (tmp_path / "stages").mkdir()
    with pytest.raises(ConfigError, match=r"holds a demo of version 0\.1; remove it, or choose another --output_dir"):
        run(["demo", f"--output_dir={tmp_path}", "--scale=smoke"])


def test_without_ground_truth_there_is_no_comparison(root: Path, findings: DemoFindings, tmp_path: Path) -> None:
    file = findings.dataset / "meta" / "ptr_ground_truth.jsonl"
    kept = tmp_path / "kept"
    shutil.move(file, kept)
    try:
        with pytest.raises(DataError, match="has no ground truth"):
            read_findings(STUDY, root)
    finally:
        shutil.move(kept, file)


@pytest.mark.parametrize(
    ("flag", "words"),
    [("--scale=ful", "did you mean 'full'"), ("--num_workers=0", "at least 1"), ("--seed=-1", "at least 0")],
)
def test_bad_flags_are_one_line(flag: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        run(["demo", f"--output_dir={tmp_path / 'demo'}", flag])
    assert not (tmp_path / "demo").exists()
