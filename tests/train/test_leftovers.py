"""What a killed run or a killed data worker leaves is no dead end."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import psutil
import pytest

from ptr_robot.data.segments.loader import LostWorkerError
from ptr_robot.errors import ConfigError
from ptr_robot.eval.saved_policy import checkpoint_folder
from ptr_robot.train.checkpoint import remove_unfinished
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.loop import Trainer, train
from ptr_robot.train.run_folder import check_free
from ptr_robot.train.trained import pretrained_folder

from .test_resume import assert_same_run


@pytest.mark.parametrize("left", ["checkpoints/.000003.partial/pretrained_model", "checkpoints"])
def test_a_run_that_was_killed_in_its_first_save_can_start_again(settings, left):
    """With the files that a run has by then; a folder with anything else is still refused."""
    config = settings()
    run = Path(config.output_dir)
    (run / left).mkdir(parents=True)
    for name in ("train_config.json", "run.json.partial", "README.txt", "records.jsonl", "run.lock"):
        (run / name).write_text("")
    check_free(run, resume=False)
    (run / "mine.txt").write_text("")
    with pytest.raises(ConfigError, match="exists already"):
        check_free(run, resume=False)


def test_unfinished_checkpoints_are_removed_and_whole_ones_kept(tmp_path):
    for name in (".000003.partial/pretrained_model", "000002/pretrained_model"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    (tmp_path / "checkpoints/.last.partial").symlink_to("000002")
    remove_unfinished(tmp_path)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["000002"]


def test_a_killed_data_worker_costs_nothing_of_what_was_learnt(settings, tmp_path):
    """One line, a checkpoint of the last whole step, and the resumed run is the one that was not disturbed."""
    config = settings(num_workers=1, save_freq=100)
    undisturbed = dataclasses.replace(config, output_dir=str(tmp_path / "undisturbed"))
    train(undisturbed)

    def kill_the_worker(trainer, batches):
        if trainer.steps_done == 3:
            for child in psutil.Process().children():
                child.kill()
        return step(trainer, batches)

    step = Trainer._step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_step", kill_the_worker)
        with pytest.raises(LostWorkerError, match=r"was killed.*saved at step \d.*--resume=true"):
            train(config)
    train(dataclasses.replace(config, resume=True))
    assert_same_run(Path(undisturbed.output_dir), Path(config.output_dir))


def test_a_run_that_was_killed_before_it_named_its_last_checkpoint_is_found_and_named_again(settings):
    config = settings()
    run = Path(config.output_dir)
    train(config)
    saved = latest_checkpoint(run)
    (run / "checkpoints/last").unlink()
    assert checkpoint_folder(run) == saved
    assert pretrained_folder(run) == saved / "pretrained_model"
    train(dataclasses.replace(config, resume=True))
    assert (run / "checkpoints/last").resolve() == saved
