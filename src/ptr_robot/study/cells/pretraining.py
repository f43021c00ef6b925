"""The policy that cells start from: pretrained once on clean demonstrations, and kept as a stage that they share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ptr_robot.errors import PTRError
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.study.cells.data_jobs import CACHE_FOLDER, CollectJob
from ptr_robot.study.cells.stage_job import StageJob
from ptr_robot.study.engine.jobs import Job
from ptr_robot.study.spec.definition import PolicySettings, PretrainingSettings
from ptr_robot.train.config import DatasetConfig, OptimizerConfig, TrainConfig


class InterruptedPretrainingError(PTRError):
    """A signal ended the pretraining before its last step."""


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
        return {"policy": asdict(self.policy), **asdict(self.pretraining)}

    def make(self, output: Path) -> None:
        """Train, and leave the run folder with its last checkpoint."""
        from ptr_robot.train.loop import train

        result = train(self.train_config(output))
        if result.exit_code:
            raise InterruptedPretrainingError(f"{self.key}: pretraining was stopped at step {result.steps_done}")

    def train_config(self, output: Path) -> TrainConfig:
        """As the cells train, but from initial weights; no context sees the state, as the paper's h_t has it."""
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
                context_sees_state=False,
                device="cpu",
            ),
            method="sft",
            output_dir=str(output),
            seed=pretraining.seed,
            steps=pretraining.steps,
            batch_size=pretraining.batch_size,
            num_workers=0,
            log_freq=pretraining.log_freq,
            save_freq=pretraining.steps,
            optimizer=OptimizerConfig(lr=pretraining.lr),
        )
