"""The policy that cells start from: pretrained once on clean demonstrations, and kept as a stage that they share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.study.cells.data_jobs import CACHE_FOLDER, CollectJob
from ptr_robot.study.cells.stage_job import StageJob
from ptr_robot.study.cells.stage_training import SAVE_FREQ, train_stage
from ptr_robot.study.engine.jobs import Job
from ptr_robot.study.spec.definition import PolicySettings, PretrainingSettings, by_value
from ptr_robot.train.config import DatasetConfig, OptimizerConfig, TrainConfig


@dataclass(frozen=True)
class PretrainJob(StageJob):
    """Plain fine-tuning from nothing on clean demonstrations of many tasks; seeds, settings and methods share it."""

    demonstrations: CollectJob
    policy: PolicySettings
    pretraining: PretrainingSettings

    folder: ClassVar[str] = "pretrained"

    @property
    def after(self) -> tuple[Job, ...]:
        """The demonstrations."""
        return (self.demonstrations,)

    @property
    def title(self) -> str:
        """For the terminal."""
        return f"pretraining on {len(self.pretraining.tasks)} tasks"

    @property
    def settings(self) -> dict[str, Any]:
        """What the policy depends on beside the demonstrations."""
        return {"policy": by_value(self.policy), **asdict(self.pretraining)}

    def run(self) -> None:
        """Make the folder, or go on where an interrupted run saved."""
        self.make(self.output)

    def make(self, output: Path) -> None:
        """Train, and leave the run folder with its last checkpoint."""
        train_stage(self.stage, self.train_config(output))

    def train_config(self, output: Path) -> TrainConfig:
        """As the cells train, but from initial weights."""
        policy, pretraining = self.policy, self.pretraining
        return TrainConfig(
            dataset=DatasetConfig(
                **self.demonstrations.source_fields(None),
                num_chunks=policy.num_chunks,
                cache_dir=str(self.root / CACHE_FOLDER),
            ),
            policy=VLAChoice(
                preset=policy.preset,
                chunk_length=policy.chunk_length,
                image_size=policy.image_size,
                context_sees_state=policy.context_sees_state,
                device="cpu",
            ),
            method="sft",
            output_dir=str(output),
            seed=pretraining.seed,
            steps=pretraining.steps,
            batch_size=pretraining.batch_size,
            num_workers=0,
            log_freq=pretraining.log_freq,
            save_freq=SAVE_FREQ,
            optimizer=OptimizerConfig(lr=pretraining.lr),
        )
