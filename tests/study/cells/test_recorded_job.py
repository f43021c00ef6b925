"""Cells of several environments and of recordings that nobody can evaluate on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from ptr_robot.eval.results import RolloutResult
from ptr_robot.study.analysis.detection import auroc_by_fault, count_of, mean_weights
from ptr_robot.study.cells.cell import Cell
from ptr_robot.study.cells.cell_rollouts import evaluate_cell
from ptr_robot.study.cells.data import CellData
from ptr_robot.study.cells.plan import plan_cells
from ptr_robot.study.cells.recorded_job import RecordedJob
from ptr_robot.study.engine.jobs import with_needed
from ptr_robot.study.spec.definition_file import read_study
from ptr_robot.study.spec.methods import REGISTRY
from ptr_robot.train.sources import read_sources
from tests.data.v21_writer import LENGTHS, write_v21

STUDY = {
    "name": "recorded",
    "question": "Do recordings of another robot join in?",
    "tasks": ["reach"],
    "demonstrations": {"episodes": 3, "match_lengths": False, "operators": {"brisk": 2, "jittery": 1}},
    "settings": {
        "own": {"evaluation": {"n_action_steps": 8}},
        "push": {"tasks": ["push"], "evaluation": {"max_steps": None}},
        "cubes": {"dataset": "${PTR_ROBOT_CUBES}"},
        "both": {"pool": ["own", "push", "cubes"]},
    },
    "training": {"steps": 2, "batch_size": 4, "log_freq": 1},
    "evaluation": {"episodes": 1, "max_steps": 16, "n_action_steps": 16},
    "methods": ["sft", "clean", "filter-length"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    write_v21(folder / "cubes")
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY))
    return folder


@pytest.fixture(scope="module")
def cells(folder: Path) -> dict[str, Cell]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PTR_ROBOT_CUBES", str(folder / "cubes"))
        planned = plan_cells(read_study(str(folder / "study.yaml")), folder / "study", keeps_checkpoints=True)
    return {f"{cell.setting}/{cell.row.name}": cell for cell in planned}


@pytest.fixture(scope="module")
def pooled(cells: dict[str, Cell]) -> Cell:
    cell = cells["both/clean"]
    for job in with_needed([cell, *cells["both/filter-length"].after]):
        job.run()
    return cell


def test_recordings_have_no_cells_of_their_own(cells: dict[str, Cell]) -> None:
    assert {cell.setting for cell in cells.values()} == {"own", "push", "both"}
    (recordings,) = (job for job in cells["both/sft"].after if isinstance(job, RecordedJob))
    assert recordings.is_done()


def test_recordings_are_known_by_what_they_hold(folder: Path, tmp_path: Path) -> None:
    again = write_v21(tmp_path / "elsewhere")
    here, there = RecordedJob(tmp_path, folder / "cubes"), RecordedJob(tmp_path / "other", again)
    assert here.stage.identity == there.stage.identity
    assert dataclasses.replace(here, state="observation.effort").stage.identity != here.stage.identity
    tasks = again / "meta" / "tasks.jsonl"
    tasks.write_text(tasks.read_text().replace("lift", "drop"))
    assert RecordedJob(tmp_path, again).stage.identity != here.stage.identity


def test_evaluation_is_part_of_the_cell_where_sources_differ(cells: dict[str, Cell]) -> None:
    own, push = {"episodes": 1, "max_steps": 16, "n_action_steps": 8}, {"episodes": 1, "max_steps": None}
    assert cells["own/sft"].settings["evaluation"] == own
    assert cells["both/sft"].settings["evaluation"] == [own, {**push, "n_action_steps": 16}]


@pytest.mark.slow
def test_recordings_are_trained_on_and_nothing_is_claimed_of_them(cells: dict[str, Cell], pooled: Cell) -> None:
    record = pooled.read()
    assert record.is_done
    assert record.tasks == ("reach-v3", "push-v3")
    unknown = [episode for episode in record.scored_episodes if episode.faults is None]
    assert [(episode.source, episode.episode_index) for episode in unknown] == [(2, n) for n in range(len(LENGTHS))]
    assert not any(episode.is_good or episode.is_faulty for episode in unknown)
    assert record.num_training_episodes == 2 + 2 + len(LENGTHS)  # two of three demonstrations are clean
    sources = read_sources(next((pooled.run_folder / "checkpoints").glob("0*")) / "pretrained_model")
    assert [source.robot for source in sources][2] == "metaworld"
    assert sources[2].tasks == ("push the cube", "lift the cube")


@pytest.mark.slow
def test_rules_judge_recordings_too(cells: dict[str, Cell], pooled: Cell, tmp_path: Path) -> None:
    cell = cells["both/filter-length"]
    data = CellData.prepare(cell.sources, cell.row, tmp_path)
    assert [len(source.kept) for source in data.sources] == [2, 2, 2]
    assert len(data.sources[2].scores) == len(LENGTHS)
    truth = dataclasses.replace(cell.row, filter=None, weighting=REGISTRY["true-labels"].weighting)
    weighed = CellData.prepare(cell.sources, truth, tmp_path)
    assert [source.weights is None for source in weighed.sources] == [False, False, True]


@pytest.mark.slow
def test_each_source_has_its_own_protocol(pooled: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(load, environment_type, tasks, seeds, config):
        seen.append((tuple(tasks), config.max_steps, config.execute_steps))
        return RolloutResult(())

    monkeypatch.setattr("ptr_robot.study.cells.cell_rollouts.rollout", watched)
    evaluate_cell(pooled.run_folder, pooled.sources, 0)
    assert seen == [(("reach-v3",), 16, 8), (("push-v3",), None, 16)]


@pytest.mark.slow
def test_what_is_unknown_counts_for_no_area_and_no_mean(pooled: Cell) -> None:
    scored = [dataclasses.replace(episode, weight=1.0 + episode.source) for episode in pooled.read().scored_episodes]
    known = [episode for episode in scored if episode.faults is not None]
    assert auroc_by_fault(scored, lambda e: e.weight) == auroc_by_fault(known, lambda e: e.weight)
    assert mean_weights(scored) == mean_weights(known)
    assert count_of(scored, "any") == 2


@pytest.mark.slow
def test_recordings_of_an_environment_are_corrupted_and_evaluated_there(folder: Path, tmp_path: Path) -> None:
    cubes, corruption = str(folder / "cubes"), {"kind": "tt", "fraction": 0.5}
    settings = {"whole": {"dataset": cubes, "tasks": ["reach"]}}
    settings["cut"] = {**settings["whole"], "corruption": corruption, "evaluation": {"max_steps": 12}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({**STUDY, "settings": settings, "seeds": [0, 1]}))
    study = read_study(str(tmp_path / "study.yaml"))
    assert sorted(study.evaluated_settings) == ["cut", "whole"]
    planned = plan_cells(study, tmp_path / "study")
    cells = {f"{cell.setting}/{cell.row.name}/{cell.seed}": cell for cell in planned}
    assert cells["cut/sft/0"].sources[0].dataset.output != cells["cut/sft/1"].sources[0].dataset.output
    wanted = [cells["whole/sft/0"], cells["cut/clean/0"]]
    for job in with_needed(wanted):
        job.run()
    whole, cut = (cell.read() for cell in wanted)
    assert [(e.task, e.num_steps) for e in (*whole.episodes, *cut.episodes)] == [("reach-v3", 16), ("reach-v3", 12)]
    assert all(episode.faults is None for episode in whole.scored_episodes)
    faulty = [episode.episode_index for episode in cut.scored_episodes if episode.faults]
    assert 0 < len(faulty) < len(LENGTHS)
    assert cut.num_training_episodes == len(LENGTHS) - len(faulty)
    assert all(episode.weight == float(episode.episode_index not in faulty) for episode in cut.scored_episodes)


def test_what_environments_add_changes_no_cell_without_them(folder: Path, tmp_path: Path) -> None:
    plain = {name: value for name, value in STUDY.items() if name != "settings"}
    named = {"env": "metaworld", "evaluation": {"max_steps": 16, "n_action_steps": 16}}
    identities = []
    for own in ({}, named):
        settings = {"a": own, "b": {**own, "robot": "metaworld_objects_left"}, "c": {"pool": ["a", "b"]}}
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump({**plain, "settings": settings}))
        identities.append([cell.identity for cell in plan_cells(read_study(str(path)), tmp_path)])
        cell = plan_cells(read_study(str(path)), tmp_path)[-1]
        # These and no others enter the hash: one more would run every cell of every folder again.
        assert sorted(cell.settings) == sorted(
            ["seed", "tasks", "camera_size", "method", "filter", "weighting", "policy", "training", "evaluation"]
        )
        assert cell.settings["evaluation"] == {"episodes": 1, "max_steps": 16, "n_action_steps": 16}
    assert identities[0] == identities[1]


def test_a_cell_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who changes it runs every cell of every folder again."""
    monkeypatch.setattr("ptr_robot.study.cells.cell.__version__", "0.2.0")
    monkeypatch.setattr("ptr_robot.study.cells.data_jobs.COLLECTION_VERSION", 2)
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump({**STUDY, "settings": {"a": {}}, "methods": ["sft"]}))
    (cell,) = plan_cells(read_study(str(path)), tmp_path)
    assert cell.identity == "b4f3a9e0e0f66990b244"


@pytest.mark.slow
def test_three_embodiments_meet_in_one_policy(g1: Path, libero_assets: None, tmp_path: Path) -> None:
    overrides = {"settings": ["pooled"], "methods": ["sft"], "demonstrations": {"episodes": 2}}
    study = read_study("embodiments", overrides, "smoke")
    (cell,) = (cell for cell in plan_cells(study, tmp_path / "study") if cell.setting == "pooled")
    for job in with_needed([cell]):
        job.run()
    record = cell.read()
    assert record.tasks == ("drawer-open-v3", "libero_object_0")
    assert {"metaworld", "hf-libero"} <= set(record.versions)
    assert {episode.source for episode in record.scored_episodes if episode.faults is None} == {2}
