"""What a resumed run needs besides the policy: safetensors and JSON in a ``training_state`` folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ptr_robot.data.segments.loader import SegmentLoader
from ptr_robot.errors import DataError, PTRError
from ptr_robot.method.scoring.screen import Screening
from ptr_robot.policy.policy_files import load_weights
from ptr_robot.text_files import read_json_object
from ptr_robot.train.episode_records import EpisodeLedger
from ptr_robot.train.metrics import MetricWindow
from ptr_robot.train.optimisation import Optimiser
from ptr_robot.train.screening import write_screening
from ptr_robot.train.tensor_files import read_tensors, save_tensors

STATE_FILE = "state.json"
OPTIMISER_FILE = "optimizer_state.safetensors"
PTR_FILE = "ptr_state.safetensors"
SUMS_FILE = "sums.safetensors"


@dataclass(frozen=True)
class TrainingState:
    """The moving parts of a run. Random numbers are not among them: they are a function of seed, step and sample."""

    optimiser: Optimiser
    loader: SegmentLoader
    ledger: EpisodeLedger
    window: MetricWindow
    screening: Screening | None = None  # read before the rest: it decides which episodes the loader has

    def write(self, folder: Path, step: int, episode_totals: Tensor) -> None:
        """Fill a folder that is not in its place yet."""
        folder.mkdir()
        optimiser = self.optimiser
        save_tensors(adam_tensors(optimiser), folder / OPTIMISER_FILE)
        save_tensors(optimiser.module.ptr.state_dict(), folder / PTR_FILE)
        save_tensors({"episode_totals": episode_totals, **self.window.state_dict()}, folder / SUMS_FILE)
        if self.screening is not None:
            write_screening(self.screening, folder)
        record = {
            "step": step,
            "scheduler": optimiser.schedule.state_dict(),
            "loader": self.loader.state_dict(),
            "prior_weights": self._prior_weights(),
        }
        (folder / STATE_FILE).write_text(json.dumps(record, indent=2) + "\n")

    def read(self, folder: Path) -> int:
        """Take everything back, in place; gives the number of steps that were done."""
        try:
            return self._read(folder)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            if isinstance(error, PTRError):
                raise
            reason = " ".join(str(error).split())[:300]
            raise DataError(f"{folder} is damaged ({reason}); resume from another checkpoint") from error

    def _read(self, folder: Path) -> int:
        record = read_state(folder)
        if record.get("prior_weights", self._prior_weights()) != self._prior_weights():
            raise DataError(
                "the run was begun with other weights of episodes; bring the file that dataset.episode_weights named "
                "back as it was, or start another run"
            )
        load_weights(self.optimiser.module.ptr, folder / PTR_FILE)
        load_adam(self.optimiser, read_tensors(folder / OPTIMISER_FILE), folder / OPTIMISER_FILE)
        load_schedule(self.optimiser, record["scheduler"])
        self.loader.load_state_dict(record["loader"])
        sums = read_tensors(folder / SUMS_FILE)
        self.ledger.restore(sums["episode_totals"], is_main=self.optimiser.accelerator.is_main_process)
        self.window.load_state_dict(sums)
        return int(record["step"])

    def _prior_weights(self) -> str | None:
        """A digest of how much each episode counts beforehand."""
        facts = self.optimiser.module.facts
        if facts is None or facts.prior_weights is None:
            return None
        return hashlib.sha256(facts.prior_weights.cpu().numpy().tobytes()).hexdigest()


def read_state(folder: Path) -> dict[str, Any]:
    """The JSON part of a training state."""
    file = folder / STATE_FILE
    record = read_json_object(file, "resume from another checkpoint")
    if missing := {"scheduler", "loader", "step"} - set(record):
        raise DataError(f"{file} is damaged ({', '.join(sorted(missing))} missing); resume from another checkpoint")
    return record


def adam_tensors(optimiser: Optimiser) -> dict[str, Tensor]:
    """AdamW's state as ``<parameter>/<quantity>``: names outlive a change in the order of parameters."""
    state = optimiser.adam.state
    return {
        f"{name}/{quantity}": value
        for name, parameter in optimiser.parameters.items()
        for quantity, value in state.get(parameter, {}).items()
    }


def load_adam(optimiser: Optimiser, tensors: dict[str, Tensor], file: Path) -> None:
    """The inverse of ``adam_tensors``."""
    numbers = {name: index for index, name in enumerate(optimiser.parameters)}
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, quantity = key.rpartition("/")
        if name not in numbers:
            raise DataError(
                f"{file} is of another model: it has the parameter {name!r}; resume with the run's settings"
            )
        state.setdefault(numbers[name], {})[quantity] = value
    _check_adam(optimiser, state, file)
    optimiser.adam.load_state_dict({"state": state, "param_groups": optimiser.adam.state_dict()["param_groups"]})


def _check_adam(optimiser: Optimiser, state: Mapping[int, Mapping[str, Tensor]], file: Path) -> None:
    """Every parameter that has moments has all of them, in its own shape."""
    for index, (name, parameter) in enumerate(optimiser.parameters.items()):
        moments = state.get(index)
        if moments is None:
            continue  # a parameter that no step has moved has none
        shapes = {quantity: tuple(value.shape) for quantity, value in moments.items()}
        shape = tuple(parameter.shape)
        if shapes != {"step": (), "exp_avg": shape, "exp_avg_sq": shape}:
            raise DataError(
                f"{file}: the parameter {name!r} of shape {shape} has the moments {shapes}; resume from another "
                "checkpoint"
            )


def load_schedule(optimiser: Optimiser, state: dict[str, Any]) -> None:
    """Take back how far the schedule was; the rate at that step is what the settings of this run make it.

    A run that is resumed with more steps, or with another rate, goes on along the curve that it would have had.
    """
    schedule = optimiser.schedule
    schedule.last_epoch, schedule._step_count = int(state["last_epoch"]), int(state["_step_count"])
    curves = zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
    rates = [base * curve(schedule.last_epoch) for base, curve in curves]
    schedule._last_lr = rates
    for group, rate in zip(optimiser.adam.param_groups, rates, strict=True):
        group["lr"] = rate
