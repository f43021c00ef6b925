"""Stages: done once, done again when anything they depend on changes, never half done."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ptr_robot.errors import ConfigError, DataError
from ptr_robot.study.engine.stages import Stage, claim


def work(stage: Stage, log: list[str]):
    def write() -> None:
        stage.output.mkdir(parents=True)
        log.append(stage.name)

    return write


def test_a_stage_is_done_once(tmp_path: Path) -> None:
    stage, log = Stage(tmp_path, "a", {"x": 1}), []
    assert stage.run(work(stage, log))
    assert not stage.run(work(stage, log))
    assert log == ["a"]


def test_other_settings_or_another_input_do_it_again(tmp_path: Path) -> None:
    first = Stage(tmp_path, "a", {"x": 1})
    second = Stage(tmp_path, "runs/b", {"y": 1}, (first,))
    log: list[str] = []
    for stage in (first, second):
        stage.run(work(stage, log))
    assert second.is_complete
    assert not dataclasses.replace(second, settings={"y": 2}).is_complete
    assert not dataclasses.replace(second, after=(dataclasses.replace(first, settings={"x": 2}),)).is_complete


def test_work_that_fails_is_not_done(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "a", {})

    def fail() -> None:
        stage.output.mkdir()
        (stage.output / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stage.run(fail)
    assert not stage.is_complete
    assert stage.is_begun
    assert not dataclasses.replace(stage, settings={"x": 1}).is_begun
    assert stage.run(work(stage, []))  # mkdir would fail if the half were still there
    assert stage.is_complete
    assert not stage.is_begun


def test_a_removed_output_or_a_broken_marker_is_not_complete(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "a", {})
    stage.run(work(stage, []))
    stage.output.rmdir()
    assert not stage.is_complete
    stage.run(work(stage, []))
    (tmp_path / "stages" / "a.complete.json").write_text("{")
    assert not stage.is_complete


def test_work_without_output_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="without its output"):
        Stage(tmp_path, "a", {}).run(lambda: None)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "demonstrations").mkdir()
    with pytest.raises(ConfigError, match="not from an earlier run"):
        claim(tmp_path)
    claim(tmp_path / "new")
    claim(tmp_path / "new")


def test_only_what_is_spent_is_discarded_and_half_of_it_does_not_pass_for_whole(
    tmp_path: Path,
) -> None:
    stage, log = Stage(tmp_path, "runs/a", {}), []
    stage.run(work(stage, log))
    stage.discard_if_spent()
    assert stage.is_complete
    stage.spend()
    assert stage.is_complete
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            stage.discard_if_spent()
    assert stage.output.is_dir()
    assert not stage.is_complete
    assert not stage.is_begun
    stage.discard_if_spent()
    assert not stage.output.exists()
    assert not list((tmp_path / "stages").iterdir())
