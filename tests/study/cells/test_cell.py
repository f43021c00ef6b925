"""Cells by themselves: pooled sources in one policy, each task evaluated with the maps of its own source."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from ptr_robot.eval.results import RolloutResult
from ptr_robot.study.cells.cell import Cell
from ptr_robot.study.cells.cell_rollouts import evaluate_cell
from ptr_robot.study.cells.data import CellData
from ptr_robot.study.cells.data_jobs import CollectJob
from ptr_robot.study.cells.plan import plan_cells
from ptr_robot.study.cells.rule_job import RuleJob
from ptr_robot.study.cells.scored_episode import ScoredEpisode
from ptr_robot.study.cells.training import non_default_settings
from ptr_robot.study.engine.jobs import with_needed
from ptr_robot.study.spec.definition import EvaluationSettings, TrainingSettings
from ptr_robot.study.spec.definition_file import read_study
from ptr_robot.study.spec.methods import REGISTRY
from ptr_robot.train.sources import read_sources

pytestmark = pytest.mark.slow

STUDY = {
    "name": "pool",
    "question": "Can one policy have two bodies?",
    "tasks": ["reach"],
    "demonstrations": {"episodes": 3, "match_lengths": False, "operators": {"brisk": 2, "jittery": 1}},
    "settings": {
        "right": {},
        "left": {"tasks": ["push"], "robot": "metaworld_objects_left"},
        "both": {"pool": ["right", "left"], "steps_factor": 2},
        "even": {"pool": ["right", "left"], "shares": [3, 1]},
    },
    "training": {"steps": 2, "batch_size": 4, "log_freq": 1},
    "evaluation": {"episodes": 1, "max_steps": 16, "n_action_steps": 16},
    "methods": ["sft", "clean", "filter-length"],
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cell]:
    folder = tmp_path_factory.mktemp("pool")
    (folder / "pool.yaml").write_text(yaml.safe_dump(STUDY))
    study = read_study(str(folder / "pool.yaml"))
    planned = plan_cells(study, folder / "study", keeps_checkpoints=True)
    return {f"{cell.setting}/{cell.row.name}": cell for cell in planned}


@pytest.fixture(scope="module")
def pooled(cells: dict[str, Cell]) -> Cell:
    cell = cells["both/sft"]
    for job in with_needed([cell, *cells["both/filter-length"].after]):
        job.run()
    return cell


def _pretrained(cell: Cell) -> Path:
    return next((cell.run_folder / "checkpoints").glob("0*")) / "pretrained_model"


def test_a_pooled_policy_meets_each_task_with_its_own_source(pooled: Cell) -> None:
    record = pooled.read()
    assert record.is_done
    assert record.tasks == ("reach-v3", "push-v3")
    assert {episode.source for episode in record.scored_episodes} == {0, 1}
    assert record.curves["step"] == [1, 2, 3, 4]
    sources = read_sources(_pretrained(pooled))
    first, second = (set(source.action_map.slots.mask.nonzero()[0]) for source in sources)
    assert len(first) == len(second) == 4
    assert not first & second


def test_filters_are_applied_to_each_source_by_itself(cells: dict[str, Cell], pooled: Cell, tmp_path: Path) -> None:
    cell = cells["both/clean"]
    data = CellData.prepare(cell.sources, cell.row, tmp_path)
    for source in data.sources:
        assert source.kept == [number for number, truth in source.truths.items() if not truth.is_faulty]
        assert 0 < len(source.kept) < len(source.truths)
    cell = cells["both/filter-length"]
    data = CellData.prepare(cell.sources, cell.row, tmp_path)
    assert [len(source.kept) for source in data.sources] == [2, 2]
    assert data.num_training_episodes((), cell.row) == 4
    assert len(data.dataset_fields()["sources"]) == 2


def test_sources_have_their_stated_shares(cells: dict[str, Cell], pooled: Cell, tmp_path: Path) -> None:
    weights = []
    for cell in (pooled, cells["even/sft"]):
        fields = CellData.prepare(cell.sources, cell.row, tmp_path).dataset_fields()
        weights.append([source.weight for source in fields["sources"]])
    assert weights == [[None, None], [3, 1]]


def test_the_cell_is_known_by_its_settings(cells: dict[str, Cell]) -> None:
    assert cells["left/sft"].identity != cells["right/sft"].identity
    assert cells["even/sft"].settings["shares"] == [3, 1]
    assert "shares" not in cells["both/sft"].settings
    assert cells["both/sft"].training.steps == 2 * cells["left/sft"].training.steps


@pytest.mark.parametrize(
    ("name", "repeated"),
    [
        ("base.POPULATIONS_VERSION", "robust"),
        ("screened.SCREENING_VERSION", "screened"),
        ("screened.QUALITY_VERSION", "screened"),
    ],
)
def test_results_of_another_version_are_run_again(name: str, repeated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    training = TrainingSettings(steps=10)
    methods = ("sft", "paper", "screened", "robust")
    before = [non_default_settings(REGISTRY[method], training) for method in methods]
    monkeypatch.setattr(f"ptr_robot.train.methods.{name}", "another")
    after = [non_default_settings(REGISTRY[method], training) for method in methods]
    assert [method for method, old, new in zip(methods, before, after, strict=True) if old != new] == [repeated]


def test_a_map_is_known_by_what_its_file_says(tmp_path: Path) -> None:
    file = tmp_path / "arm.yaml"
    dataset = CollectJob.__new__(CollectJob)
    file.write_text("state: []")
    before = dataset.robot_identity(str(file))
    file.write_text("state: [{slot: ignored, size: 3}]")
    assert dataset.robot_identity(str(file)) != before
    assert dataset.robot_identity("metaworld_scene") != dataset.robot_identity("metaworld_objects_left")
    assert dataset.robot_identity(None) is None


def test_what_screening_left_out_was_not_trained_on(cells: dict[str, Cell], tmp_path: Path) -> None:
    cell = cells["both/filter-length"]
    data = CellData.prepare(cell.sources, cell.row, tmp_path)
    judged = [
        ScoredEpisode(0, number, "reach", (), 0.0, weight) for number, weight in enumerate([0.0, 0.25, 1.0, None])
    ]
    assert data.num_training_episodes(judged, REGISTRY["screened"]) == 3


def test_every_task_and_seed_has_its_own_maps_and_layouts(pooled: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(load, environment_type, tasks, seeds, config):
        policy = load()
        seen.append((tuple(tasks), set(policy._deployed._robot.action_map.slots.mask.nonzero()[0]), set(seeds)))
        return RolloutResult(())

    monkeypatch.setattr("ptr_robot.study.cells.cell_rollouts.rollout", watched)
    settings = EvaluationSettings(episodes=1000)
    sources = [dataclasses.replace(source, evaluation=settings) for source in pooled.sources]
    for seed in (0, 1):
        evaluate_cell(pooled.run_folder, sources, seed)
    slots = [set(source.action_map.slots.mask.nonzero()[0]) for source in read_sources(_pretrained(pooled))]
    assert [(names, used) for names, used, _ in seen[:2]] == [(("reach-v3",), slots[0]), (("push-v3",), slots[1])]
    assert not seen[0][2] & seen[2][2]
    assert seen[0][2] == seen[1][2]


def test_a_map_that_was_edited_is_another_for_rules_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    names = []
    for text in ("one", "two"):
        path.write_text(text)
        job = RuleJob(tmp_path, CollectJob.__new__(CollectJob), "length", 16, 0, str(path))
        names.append(job.settings["robot"])
    assert names[0] != names[1]
