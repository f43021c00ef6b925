"""Trainings of a study that are killed go on from what they saved; cells start from the policy they share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

from ptr_robot.study.cells.cell import Cell
from ptr_robot.study.cells.plan import plan_cells
from ptr_robot.study.cells.pretraining import PretrainJob
from ptr_robot.study.cells.record import record_path
from ptr_robot.study.engine.jobs import with_needed
from ptr_robot.study.spec.definition_file import read_study
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.loop import Trainer
from ptr_robot.train.tensor_files import read_tensors

pytestmark = pytest.mark.slow

STUDY = {
    "name": "pretrained",
    "question": "Does a start help?",
    "tasks": ["reach"],
    "demonstrations": {"episodes": 2, "match_lengths": False, "operators": {"brisk": 1}},
    "settings": {"only": {}},
    "pretraining": {"tasks": ["push"], "episodes": 2, "steps": 2, "batch_size": 4},
    "training": {"steps": 2, "batch_size": 4, "log_freq": 1, "lr": 1e-12},
    "evaluation": {"episodes": 1, "max_steps": 16, "n_action_steps": 16},
    "methods": ["sft"],
}


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Cell:
    folder = tmp_path_factory.mktemp("pretrained")
    (folder / "pretrained.yaml").write_text(yaml.safe_dump(STUDY))
    study = read_study(str(folder / "pretrained.yaml"))
    (cell,) = plan_cells(study, folder / "study", keeps_checkpoints=True)
    for job in with_needed([cell]):
        job.run()
    return cell


@pytest.fixture
def steps_done(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps that trainings take from here on."""
    steps: list[int] = []
    step = Trainer._step
    monkeypatch.setattr(Trainer, "_step", lambda loop, batches: [step(loop, batches), steps.append(loop.steps_done)][0])
    return steps


def test_cells_start_from_the_pretrained_policy(cell: Cell) -> None:
    before, after = weights(cell.pretrained.output), weights(cell.run_folder)
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=1e-9, msg=name)


def test_another_start_is_another_cell(cell: Cell) -> None:
    longer = dataclasses.replace(cell.pretrained.pretraining, steps=3)
    other = dataclasses.replace(cell, pretrained=dataclasses.replace(cell.pretrained, pretraining=longer))
    assert other.identity != cell.identity
    assert other.pretrained.output != cell.pretrained.output
    assert other.pretrained.after[0].output == cell.pretrained.after[0].output


def test_a_killed_cell_goes_on(cell: Cell, steps_done: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cell.read()
    record_path(cell.root, cell.setting, cell.row.name, cell.seed).unlink()
    cell.run_stage.begin()
    monkeypatch.setattr("ptr_robot.study.cells.training.SAVE_FREQ", 1)
    killed_when_it_has_saved(cell.run, monkeypatch)
    assert not cell.is_done()
    assert latest_checkpoint(cell.run_folder).name == "000001"
    cell.run()
    assert steps_done == [1, 2]
    again = cell.read()
    assert again.curves == whole.curves
    assert again.episodes == whole.episodes


def test_a_killed_pretraining_goes_on(cell: Cell, steps_done: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    job: PretrainJob = cell.pretrained
    whole = weights(job.output)
    job.stage.begin()
    monkeypatch.setattr("ptr_robot.study.cells.pretraining.SAVE_FREQ", 1)
    killed_when_it_has_saved(job.run, monkeypatch)
    assert not job.is_done()
    job.run()
    assert job.is_done()
    assert steps_done == [1, 2]
    again = weights(job.output)
    assert all(torch.equal(again[name], tensor) for name, tensor in whole.items())


def killed_when_it_has_saved(run: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    save = Trainer._save

    def save_and_die(loop: Trainer) -> None:
        save(loop)
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_save", save_and_die)
        with pytest.raises(MemoryError):
            run()


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Of the policy that a run saved last."""
    return read_tensors(latest_checkpoint(run) / "pretrained_model" / "model.safetensors")
