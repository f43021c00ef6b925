"""The demo at its smallest: real collection, trainings and rollouts, then the table, the figures and the page."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from ptr_robot.cli.main import run
from ptr_robot.data.ground_truth import read_ground_truth
from ptr_robot.errors import ConfigError
from ptr_robot.study.demo import read_findings
from ptr_robot.study.demo_plan import (
    METHODS,
    DemoConfig,
    collection_stage,
    evaluation_stage,
    training_flags,
    training_stage,
)
from ptr_robot.study.report.demo_report import comparison_rows, write_report
from ptr_robot.study.training_runs import TrainingCommand, TrainingFailedError, train_side_by_side
from ptr_robot.train.records import read_records

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoConfig:
    config = DemoConfig(output_dir=str(tmp_path_factory.mktemp("demo") / "demo"), scale="smoke")
    assert run(["demo", f"--output_dir={config.output_dir}", "--scale=smoke"]) == 0
    return config


@pytest.fixture(scope="module")
def findings(demo: DemoConfig):
    return read_findings(demo, read_ground_truth(collection_stage(demo).output) or {})


def test_every_method_has_the_same_start_steps_and_layouts(demo: DemoConfig) -> None:
    configs = {}
    for method in METHODS:
        config = json.loads((training_stage(demo, method).output / "train_config.json").read_text())
        configs[method.name] = (config["seed"], config["steps"], config["batch_size"], config["optimizer"])
    assert len({json.dumps(values) for values in configs.values()}) == 1
    episodes = [
        [(e["task"], e["seed"]) for e in json.loads(file.read_text())["episodes"]]
        for file in demo.root.glob("evaluation/*/eval_info.json")
    ]
    assert len(episodes) == len(METHODS)
    assert all(layouts == episodes[0] for layouts in episodes)


def test_the_upper_bound_sees_no_marked_episode(demo: DemoConfig) -> None:
    truths = read_ground_truth(collection_stage(demo).output) or {}
    config = json.loads((training_stage(demo, METHODS[-1]).output / "train_config.json").read_text())
    assert config["dataset"]["episodes"] == [n for n, truth in truths.items() if not truth.faults]
    assert 0 < len(config["dataset"]["episodes"]) < len(truths)


def test_run_twice_it_does_nothing_twice(demo: DemoConfig, capsys: pytest.CaptureFixture) -> None:
    stages = [collection_stage(demo)]
    stages += [stage(demo, method) for method in METHODS for stage in (training_stage, evaluation_stage)]
    before = {stage.name: stage.output.stat().st_mtime_ns for stage in stages}
    assert run(["demo", f"--output_dir={demo.output_dir}", "--scale=smoke"]) == 0
    assert before == {stage.name: stage.output.stat().st_mtime_ns for stage in stages}
    shown = capsys.readouterr()
    assert all(word in shown.err for word in ("collected before", "trained before", "evaluated before"))
    assert all(word in shown.out for word in ("SFT", "PTR (paper)", "gap share", "One training seed"))


def test_an_interrupted_training_is_gone_on_with(demo: DemoConfig) -> None:
    """It has a checkpoint of half its steps, and no scores yet."""
    stage, half = training_stage(demo, METHODS[0]), demo.sizes.steps // 2
    stage.begin()
    assert run(["train", *training_flags(demo, METHODS[0], ()), f"--save_freq={half}"]) == 0
    checkpoints, scores = stage.output / "checkpoints", stage.output / "episode_scores.parquet"
    shutil.rmtree(checkpoints / f"{demo.sizes.steps:06d}")
    (checkpoints / "last").unlink()
    scores.unlink()
    assert run(["demo", f"--output_dir={demo.output_dir}", "--scale=smoke"]) == 0
    assert stage.is_complete
    assert "resumed from" in (demo.root / "logs" / "sft-train.log").read_text()
    starts = json.loads((stage.output / "run.json").read_text())["starts"]
    assert [start["first_step"] for start in starts] == [0, half]
    assert [record["step"] for record in read_records(stage.output)] == [2, 4, 6]
    assert (checkpoints / "last").resolve().name == f"{demo.sizes.steps:06d}"
    assert scores.is_file()


def test_other_settings_are_other_stages(demo: DemoConfig) -> None:
    other = dataclasses.replace(demo, seed=demo.seed + 1)
    assert collection_stage(demo).is_complete
    assert not collection_stage(other).is_complete
    assert not training_stage(other, METHODS[0]).is_complete


def test_the_table_and_the_file_agree(demo: DemoConfig, findings) -> None:
    record = json.loads((demo.root / "comparison.json").read_text())
    rows = comparison_rows(findings.comparison)
    assert [row[0] for row in rows] == [method.title for method in METHODS]
    for method, row in zip(METHODS, rows, strict=True):
        assert row[1].startswith(f"{record['methods'][method.name]['success']['estimate']:.2f} [")


def test_the_page_stands_alone_and_escapes_what_comes_from_data(demo: DemoConfig, findings) -> None:
    hostile = "<script>alert('operator')</script>"
    truths = {n: dataclasses.replace(truth, operator=hostile) for n, truth in findings.truths.items()}
    page = write_report(dataclasses.replace(findings, truths=truths)).read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page
    assert page.count("data:image/png;base64,") == len(list((demo.root / "figures").glob("*.png"))) >= 7


def test_a_training_that_fails_is_named(tmp_path: Path) -> None:
    command = TrainingCommand("broken", tmp_path / "run", 1, ("--dataset.repo_id=nowhere", "--method=tpr"))
    with pytest.raises(TrainingFailedError, match="training broken ended with code 1: there is no method 'tpr'"):
        train_side_by_side([command], tmp_path, Console(quiet=True), 1, lambda _: None)


@pytest.mark.parametrize(
    ("flag", "words"),
    [("--scale=ful", "did you mean 'full'"), ("--num_workers=0", "at least 1"), ("--seed=-1", "0 or")],
)
def test_bad_flags_are_one_line(flag: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        run(["demo", f"--output_dir={tmp_path / 'demo'}", flag])
    assert not (tmp_path / "demo").exists()
