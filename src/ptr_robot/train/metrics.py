"""The numbers of a record: mean losses of the steps since the last one, and PTR's diagnostics of the last step."""

from __future__ import annotations

import dataclasses
import time

import torch
from torch import Tensor

from ptr_robot.method.ptr.algorithm import PTR
from ptr_robot.method.ptr.diagnostics import diagnose
from ptr_robot.method.types import PTROutput, Samples
from ptr_robot.train.optimisation import StepResult

LOSSES = (
    "action_loss",
    "plain_action_loss",
    "identification_loss",
    "ranking_loss",
    "tokenizer_loss",
    "token_entropy",
    "token_overlap",
)
OF_THE_SCORER = ("identification_loss", "ranking_loss", "temperature", "beta", "hard_ratio")
OF_THE_WEIGHTS = ("weight_mean", "weight_std", "weight_share/")
OF_THE_BELIEF = ("tokenizer_loss", "token_entropy", "token_overlap")


class MetricWindow:
    """Adds up what happens between two records, without waiting for the device."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._device = device
        self.start()

    def start(self) -> None:
        """Forget what was recorded."""
        self._sums = torch.zeros(len(LOSSES) + 1, device=self._device)
        self._steps = 0
        self._timed_steps = 0
        self._waited = 0.0
        self._started = time.perf_counter()

    def add(self, result: StepResult, seconds_waited: float) -> None:
        """Count one step and the seconds it waited for its data."""
        values = torch.stack([torch.stack([_loss(output, name) for name in LOSSES]) for output in result.outputs])
        step = torch.cat([values.mean(dim=0), result.gradient_norm.detach().float().reshape(1)])
        self._sums = self._sums + step
        self._steps += 1
        self._timed_steps += 1
        self._waited += seconds_waited

    def state_dict(self) -> dict[str, Tensor]:
        """The sums, so that a record whose steps lie on both sides of an interruption is what it would have been."""
        return {"metric_sums": self._sums, "metric_steps": torch.tensor(self._steps)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take the sums back; the time that passed is not among them."""
        sums = state["metric_sums"].to(self._device)
        if len(sums) == len(self._sums):  # those of an earlier version may be of other numbers
            self._sums, self._steps = sums, int(state["metric_steps"])

    def record(self, ptr: PTR, result: StepResult) -> dict[str, float]:
        """The means, the rate and the diagnostics of ``result``; every rank must ask at the same time."""
        elapsed = time.perf_counter() - self._started
        means = (self._sums / self._steps).tolist()
        record = dict(zip((*LOSSES, "gradient_norm"), means, strict=True))
        record = {"loss": total_loss(record, ptr), **record}
        record |= diagnostics(ptr, result.outputs[-1], result.samples[-1])
        record |= {"steps_per_second": self._timed_steps / elapsed, "data_wait_share": self._waited / elapsed}
        self.start()
        idle = (OF_THE_SCORER if ptr.scorer is None else ()) + (OF_THE_BELIEF if ptr.belief is None else ())
        return {name: value for name, value in record.items() if name not in idle}


def diagnostics(ptr: PTR, output: PTROutput, samples: Samples) -> dict[str, float]:
    """PTR's numbers of one batch; every rank must ask at the same time.

    The loss is plain where the sampler applies the weights: what they make of the batch's distribution is then that of
    equal ones, and only the numbers of the weights themselves are of those that PTR gave.
    """
    numbers = diagnose(ptr, output, samples).scalars()
    if ptr.config.weights.apply == "loss":
        return numbers
    equal = dataclasses.replace(output, weights=torch.ones_like(output.weights))
    of_weights = {name: value for name, value in numbers.items() if name.startswith(OF_THE_WEIGHTS)}
    return diagnose(ptr, equal, samples).scalars() | of_weights


def total_loss(record: dict[str, float], ptr: PTR) -> float:
    """The global objective; a rank's own ``PTROutput.loss`` is scaled for the averaging of gradients."""
    scorer = ptr.config.scorer
    terms = scorer.identification_weight * record["identification_loss"]
    terms += scorer.ranking_weight * record["ranking_loss"]
    return record["action_loss"] + terms + record["tokenizer_loss"]


def _loss(output: object, name: str) -> Tensor:
    value: Tensor = getattr(output, name)
    return value.detach().float().reshape(())
