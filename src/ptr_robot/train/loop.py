"""The training loop: builds a run from its settings, or takes one up again, and sees it through to a checkpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.data.segments.loader import LostWorkerError, SegmentLoader
from ptr_robot.errors import ConfigError, NonFiniteError
from ptr_robot.train.build import RunParts, build_parts
from ptr_robot.train.checkpoint import remove_unfinished, save_checkpoint
from ptr_robot.train.checkpoint_folders import FOLDER, LAST, STATE, latest_checkpoint, point_last
from ptr_robot.train.config import RunPlan, TrainConfig
from ptr_robot.train.episode_records import EPISODE_SCORES_FILE, EpisodeLedger
from ptr_robot.train.interruption import StopRequest
from ptr_robot.train.methods.registry import training_method
from ptr_robot.train.metrics import MetricWindow
from ptr_robot.train.optimisation import Optimiser, StepResult
from ptr_robot.train.processes import agree_on_plan, make_accelerator, others_may_end
from ptr_robot.train.records import RunRecords
from ptr_robot.train.run_folder import check_free, describe_run, occupied
from ptr_robot.train.sampler_weights import batches_of_a_draw, drawn_batches
from ptr_robot.train.step_progress import TrainingProgress
from ptr_robot.train.trained import TrainedPolicy
from ptr_robot.train.training_state import TrainingState


@dataclass(frozen=True)
class TrainResult:
    """How a run ended."""

    output_dir: Path
    steps_done: int
    checkpoint: Path
    exit_code: int = 0  # 128 + the signal that ended the run early
    is_main: bool = True  # of several processes, the one that writes


def train(config: TrainConfig, *, checkpoint: Path | None = None) -> TrainResult:
    """Train until the last step or a signal; ``checkpoint`` is where a resumed run goes on, by default its latest."""
    accelerator = make_accelerator(config)
    plan = agree_on_plan(config)
    if accelerator.is_main_process:
        check_free(plan.output_dir, resume=config.resume)
    if config.resume:
        checkpoint = checkpoint or latest_checkpoint(plan.output_dir)
        if checkpoint is None:
            raise ConfigError(f"{plan.output_dir} has no checkpoint to resume from; start the run without --resume")
    parts = build_parts(
        plan,
        checkpoint=checkpoint if config.resume else None,
        rank=accelerator.process_index,
        world_size=accelerator.num_processes,
        device=accelerator.device,
    )
    with occupied(plan.output_dir) if accelerator.is_main_process else contextlib.nullcontext():
        if accelerator.is_main_process:
            check_free(plan.output_dir, resume=config.resume)  # another run may have come and gone meanwhile
            remove_unfinished(plan.output_dir)
            if checkpoint is not None and not (plan.output_dir / FOLDER / LAST).is_dir():
                point_last(checkpoint)  # the run was killed before it could
        with others_may_end(plan.output_dir):
            accelerator.wait_for_everyone()
            return Trainer(plan, parts, accelerator).run(checkpoint if config.resume else None)


class Trainer:
    """One run: its parts, how far it is, and what it saves."""

    def __init__(self, plan: RunPlan, parts: RunParts, accelerator: Any) -> None:
        self.plan = plan
        self.parts = parts
        self.accelerator = accelerator
        self.optimiser = Optimiser(plan, parts.module, accelerator)
        self.ledger = EpisodeLedger(parts.everything, accelerator.device, parts.preparation)
        self.window = MetricWindow(accelerator.device)
        method = training_method(plan.config.method)
        self.state = TrainingState(self.optimiser, parts.loader, self.ledger, self.window, method, parts.preparation)
        self.trained = TrainedPolicy(parts.policy, parts.module.ptr.belief, parts.sources)
        self.steps_done = 0
        self.saved: Path | None = None

    def run(self, checkpoint: Path | None) -> TrainResult:
        """From the start or from a checkpoint to the end."""
        if checkpoint is not None:
            self.steps_done = self.state.read(checkpoint / STATE)  # the policy was loaded when it was built
            self.saved = checkpoint
            self._write_scores(self.ledger.totals())  # a killed run may have left none, or those of another step
        is_main = self.accelerator.is_main_process
        records = self._open_records() if is_main else None
        progress = TrainingProgress(self.plan.steps, self.steps_done, is_main=is_main)
        try:
            with StopRequest(self.accelerator.device) as stop, progress:
                if checkpoint is not None:
                    progress.say(f"resumed from {checkpoint}")
                elif self.parts.preparation.summary is not None:
                    progress.say(self.parts.preparation.summary)
                if checkpoint is None and self.parts.preparation.findings:
                    self._write_scores(self.ledger.totals())  # what was decided, before anything is trained on it
                exit_code = self._steps(stop, records, progress)
        finally:
            if records is not None:
                records.close()
        assert self.saved is not None
        return TrainResult(self.plan.output_dir, self.steps_done, self.saved, exit_code, is_main)

    def _steps(self, stop: StopRequest, records: RunRecords | None, progress: TrainingProgress) -> int:
        batches = self._batches()
        while self.steps_done < self.plan.steps:
            result = self._step(batches)
            progress.advance()
            if self._is_due(self.plan.log_freq):
                record = self._record(result)
                progress.show(record)
                if records is not None:
                    records.add(self.steps_done, record)
            is_stopped = stop.is_made()
            if is_stopped or self._is_due(self.plan.save_freq):
                self._save()
            if is_stopped and self.steps_done < self.plan.steps:
                progress.say(f"stopped at step {self.steps_done} and saved; {self._how_to_resume()}")
                return stop.exit_code
        progress.say(f"done: {self.saved}")
        return 0

    def _batches(self) -> Iterator[SegmentBatch]:
        """Without end; drawn anew at each record where the weights that the sampler applies move in training."""
        if self.plan.ptr.weights.apply != "sampler" or not self.plan.ptr.scorer.enabled:
            return endless(self.parts.loader)
        loader, given = self.parts.loader, self.parts.preparation.episode_weights
        return drawn_batches(loader, given, self.ledger.totals, batches_of_a_draw(self.plan))

    def _step(self, batches: Iterator[SegmentBatch]) -> StepResult:
        started = time.perf_counter()
        micro_batches = self._next_batches(batches)
        waited = time.perf_counter() - started
        is_warm = self.parts.module.ptr.step >= self.plan.ptr.weights.warmup_steps
        try:
            result = self.optimiser.step(micro_batches, self.steps_done)
        except NonFiniteError as error:
            kept = f"the last good checkpoint is {self.saved}" if self.saved else "no checkpoint was saved yet"
            raise NonFiniteError(f"step {self.steps_done + 1}: {error}; the run stops, {kept}") from error
        self.steps_done += 1
        self.window.add(result, waited)
        if is_warm:
            for output, samples in zip(result.outputs, result.samples, strict=True):
                self.ledger.add(output, samples)
        return result

    def _next_batches(self, batches: Iterator[SegmentBatch]) -> list[SegmentBatch]:
        """Those of a step; a data worker that is lost costs a single process nothing of what it has learnt."""
        position = self.parts.loader.position
        try:
            return [next(batches) for _ in range(self.plan.config.gradient_accumulation_steps)]
        except LostWorkerError as error:
            if self.accelerator.num_processes > 1 or not self.steps_done:
                raise LostWorkerError(f"{error}; the run stops at step {self.steps_done}") from error
            self.parts.loader.position = position
            self._save()
            raise LostWorkerError(f"{error}; saved at step {self.steps_done}, {self._how_to_resume()}") from error

    def _is_due(self, frequency: int) -> bool:
        return self.steps_done % frequency == 0 or self.steps_done == self.plan.steps

    def _record(self, result: StepResult) -> dict[str, float]:
        record = {"learning_rate": self.optimiser.learning_rate, "epoch": float(self.parts.loader.epoch)}
        return record | self.window.record(self.parts.module.ptr, result)

    def _save(self) -> None:
        """Every rank adds its sums and, where the weights are sharded, its shares; the first one writes."""
        totals, gathered, trained = self.ledger.totals(), self.state.gather(), self._whole_policy()
        if self.accelerator.is_main_process:
            run, config = self.plan.output_dir, self.plan.config
            self.saved = save_checkpoint(run, self.steps_done, config, trained, self.state, gathered, totals)
        self._write_scores(totals)
        self.accelerator.wait_for_everyone()
        self.saved = self.saved or latest_checkpoint(self.plan.output_dir)

    def _whole_policy(self) -> TrainedPolicy:
        """What is saved: the policy itself, or a whole copy of a sharded one."""
        sharding, is_main = self.optimiser.sharding, self.accelerator.is_main_process
        if sharding is None:
            return self.trained
        policy, belief = sharding.whole_policy(is_kept=is_main), sharding.whole_belief(is_kept=is_main)
        return replace(self.trained, policy=policy, belief=belief)

    def _write_scores(self, totals: Tensor) -> None:
        if self.accelerator.is_main_process:
            self.ledger.write(totals, self.plan.output_dir / EPISODE_SCORES_FILE)

    def _open_records(self) -> RunRecords:
        world_size = self.accelerator.num_processes
        if self.steps_done < self.plan.steps:  # a run that has ended stays as it is described
            describe_run(self.plan, self.parts, world_size=world_size, first_step=self.steps_done)
        return RunRecords(self.plan.output_dir, self.plan.config, self.steps_done)

    def _how_to_resume(self) -> str:
        return f"go on with: ptr train --resume=true --output_dir={self.plan.output_dir}"


def endless(loader: SegmentLoader) -> Iterator[SegmentBatch]:
    """Epoch after epoch."""
    while True:
        yield from loader
