"""A training whose run folder is a stage: what an interrupted run of the same settings saved is gone on with."""

from __future__ import annotations

import dataclasses

from ptr_robot.errors import PTRError
from ptr_robot.study.engine.stages import Stage
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.config import TrainConfig

# How often a study's trainings save, in steps: what a killed study repeats at most.
SAVE_FREQ = 500


class InterruptedTrainingError(PTRError):
    """A signal ended the training before its last step."""


def train_stage(stage: Stage, config: TrainConfig) -> None:
    """From the start, or from the last checkpoint; the stage is whole afterwards."""
    from ptr_robot.train.loop import train

    is_resumed = (stage.is_begun or stage.is_complete) and latest_checkpoint(stage.output) is not None
    if not is_resumed:
        stage.begin()
    result = train(dataclasses.replace(config, resume=is_resumed))
    if result.exit_code:
        raise InterruptedTrainingError(f"{stage.name}: training was stopped at step {result.steps_done}")
    stage.finish()
