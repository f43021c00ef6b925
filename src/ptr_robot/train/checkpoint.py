"""Checkpoints of a run: ``checkpoints/<step>/{pretrained_model,training_state}``, each whole or not there at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from torch import Tensor

from ptr_robot.errors import DataError
from ptr_robot.train.checkpoint_folders import FOLDER, PRETRAINED, STATE, latest_checkpoint, point_last
from ptr_robot.train.config import TrainConfig
from ptr_robot.train.config_file import write_config
from ptr_robot.train.trained import TrainedPolicy, save_trained
from ptr_robot.train.training_state import GatheredState, TrainingState


def save_checkpoint(
    run: Path,
    step: int,
    config: TrainConfig,
    trained: TrainedPolicy,
    state: TrainingState,
    gathered: GatheredState,
    episode_totals: Tensor,
) -> Path:
    """Write a checkpoint beside the others, put it in place in one move, and point ``last`` at it."""
    place = run / FOLDER / f"{step:06d}"
    partial = place.with_name(f".{place.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)  # what a killed run left
        partial.mkdir(parents=True)
        save_trained(trained, partial / PRETRAINED)
        write_config(config, partial / PRETRAINED)
        state.write(partial / STATE, step, gathered, episode_totals)
        _sync(partial)
        shutil.rmtree(place, ignore_errors=True)  # of a run that was resumed from an earlier checkpoint
        partial.replace(place)
        point_last(place)
    except (OSError, DataError) as error:
        kept = latest_checkpoint(run)
        remains = f"the last whole checkpoint is {kept}" if kept else "there is no earlier checkpoint"
        raise DataError(f"the checkpoint of step {step} could not be saved in {run}: {error}; {remains}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return place


def remove_unfinished(run: Path) -> None:
    """Clear what a killed run left of checkpoints that it was writing; to be called by the run's only process."""
    for partial in (run / FOLDER).glob(".*.partial"):
        if partial.is_dir() and not partial.is_symlink():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Have the disk accept every byte before the old checkpoint stops being the last one."""
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
