"""One step of the optimiser: AdamW, its schedule, and micro-batches that share one denominator."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.errors import NonFiniteError, require
from ptr_robot.method.hashing import hash_integers
from ptr_robot.method.ptr.accumulation import WeightedAccumulation
from ptr_robot.method.types import PTROutput, Samples
from ptr_robot.train.config import RunPlan
from ptr_robot.train.module import TrainingModule
from ptr_robot.train.sharding import Sharding, is_sharded_run


@dataclass(frozen=True)
class StepResult:
    """What one step leaves for the records: one entry a micro-batch."""

    outputs: tuple[PTROutput, ...]
    samples: tuple[Samples, ...]
    gradient_norm: Tensor  # () before clipping


class Optimiser:
    """Takes steps with a module that accelerate has prepared."""

    def __init__(self, plan: RunPlan, module: TrainingModule, accelerator: Any) -> None:
        self.plan = plan
        self.module = module
        self.accelerator = accelerator
        is_sharded = is_sharded_run(accelerator)
        self.prepared: nn.Module = accelerator.prepare_model(module, evaluation_mode=is_sharded)
        self.sharding = Sharding(module, accelerator.device, accelerator.num_processes) if is_sharded else None
        self.parameters = {name: value for name, value in module.named_parameters() if value.requires_grad}
        self.adam = make_adam(plan, list(self.parameters.values()))
        self.schedule = make_schedule(plan, self.adam)

    @property
    def learning_rate(self) -> float:
        """That of the next step."""
        return float(self.adam.param_groups[0]["lr"])

    def step(self, batches: Sequence[SegmentBatch], number: int) -> StepResult:
        """Learn from the micro-batches of step ``number``, counted from 0; raises before a bad step is taken."""
        accumulation = WeightedAccumulation(float(self.module.ptr.mean_weight)) if len(batches) > 1 else None
        key = int(hash_integers(self.plan.config.seed, number))
        results = []
        for index, batch in enumerate(batches):
            self._seed_dropout(number, index)
            is_last = index + 1 == len(batches)
            with contextlib.nullcontext() if is_last or self.sharding else self.accelerator.no_sync(self.prepared):
                output, samples = self.prepared(batch.to(self.accelerator.device, non_blocking=True), key)
                loss = output.loss if accumulation is None else accumulation.loss(output)
                loss.backward()  # accelerate's own would divide by a number of micro-batches that it was told
                if self.sharding is not None:
                    self.sharding.end_backward()
            results.append((output, samples))
        if accumulation is not None:
            accumulation.finish(self.parameters.values())
        gradient_norm = self._clip([output.loss for output, _ in results])
        self.adam.step()
        self.schedule.step()
        self.adam.zero_grad(set_to_none=True)
        self.module.update()
        return StepResult(
            outputs=tuple(output for output, _ in results),
            samples=tuple(samples for _, samples in results),
            gradient_norm=gradient_norm,
        )

    def _seed_dropout(self, step: int, micro_batch: int) -> None:
        """torch's own generator, for towers with dropout: as all of a run's noise it depends on where the run stands.

        Nothing has to be saved. Here alone ranks draw different numbers: torch's dropout knows nothing of samples.
        """
        rank = self.accelerator.process_index
        torch.manual_seed(int(hash_integers(self.plan.config.seed, step, micro_batch, rank)))

    def _clip(self, losses: Sequence[Tensor]) -> Tensor:  # ()
        """The gradient's norm before clipping; a step that would end in NaN is not taken."""
        limit = self.plan.config.optimizer.grad_clip_norm or float("inf")
        norm: Tensor = nn.utils.clip_grad_norm_(self.parameters.values(), limit, foreach=True)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        if not torch.isfinite(torch.stack([norm, *(loss.detach().to(norm) for loss in losses)])).all():
            raise NonFiniteError("the loss or its gradient is not finite; lower optimizer.lr or look at the data")
        return norm


def make_adam(plan: RunPlan, parameters: list[nn.Parameter]) -> torch.optim.AdamW:
    """The paper's optimiser over everything that learns."""
    config = plan.config.optimizer
    return torch.optim.AdamW(
        parameters,
        lr=plan.learning_rate,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
        fused=True,  # one pass over the memory for all parameters
    )


def make_schedule(plan: RunPlan, optimiser: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
    """Linear warm-up and cosine: a function of the step alone."""
    optimization = require("transformers.optimization", "lerobot")
    schedule: torch.optim.lr_scheduler.LambdaLR = optimization.get_cosine_schedule_with_warmup(
        optimiser, num_warmup_steps=plan.num_warmup_steps, num_training_steps=plan.steps
    )
    return schedule
