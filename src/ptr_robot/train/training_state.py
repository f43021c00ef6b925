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
from ptr_robot.files import fingerprint
from ptr_robot.policy.policy_files import load_weights
from ptr_robot.text_files import read_json_object
from ptr_robot.train.episode_records import EpisodeLedger
from ptr_robot.train.methods.base import Preparation, TrainingMethod
from ptr_robot.train.metrics import MetricWindow
from ptr_robot.train.optimisation import Optimiser
from ptr_robot.train.sharding import shared_like, whole_tensors
from ptr_robot.train.tensor_files import read_tensors, save_tensors

STATE_FILE = "state.json"
OPTIMISER_FILE = "optimizer_state.safetensors"
PTR_FILE = "ptr_state.safetensors"
SUMS_FILE = "sums.safetensors"


@dataclass(frozen=True)
class GatheredState:
    """Tensors of a run by name, whole whatever the number of processes."""

    adam: dict[str, Tensor]
    ptr: dict[str, Tensor]


@dataclass(frozen=True)
class TrainingState:
    """The moving parts of a run. Random numbers are not among them: they are a function of seed, step and sample."""

    optimiser: Optimiser
    loader: SegmentLoader
    ledger: EpisodeLedger
    window: MetricWindow
    method: TrainingMethod
    preparation: Preparation  # read before the rest: it decides which episodes the loader has

    def gather(self) -> GatheredState:
        """The optimiser's and PTR's tensors; of a sharded run every process takes part, and the first keeps them."""
        optimiser, is_kept = self.optimiser, self.optimiser.accelerator.is_main_process
        return GatheredState(
            adam=whole_tensors(adam_tensors(optimiser), is_kept=is_kept),
            ptr=whole_tensors(optimiser.module.ptr.state_dict(), is_kept=is_kept),
        )

    def write(self, folder: Path, step: int, gathered: GatheredState, episode_totals: Tensor) -> None:
        """Fill a folder that is not in its place yet."""
        folder.mkdir()
        optimiser = self.optimiser
        save_tensors(gathered.adam, folder / OPTIMISER_FILE)
        save_tensors(gathered.ptr, folder / PTR_FILE)
        save_tensors({"episode_totals": episode_totals, **self.window.state_dict()}, folder / SUMS_FILE)
        self.method.save_state(self.preparation, folder)
        record = {
            "step": step,
            "scheduler": optimiser.schedule.state_dict(),
            "loader": self.loader.state_dict(),
            "episode_weights": self._episode_weights(),
            "instructions": self._instructions(),
        }
        (folder / STATE_FILE).write_text(json.dumps(record, indent=2) + "\n")

    def read(self, folder: Path) -> int:
        """Take everything back, in place; gives the number of steps that were done."""
        try:
            return self._read(folder)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            if isinstance(error, PTRError):
                raise
            reason = " ".join(str(error).split())[:300]
            raise DataError(f"{folder} is damaged ({reason}); resume from another checkpoint") from error

    def _read(self, folder: Path) -> int:
        record = read_state(folder)
        weights = self._episode_weights()
        if record.get("episode_weights", record.get("prior_weights", weights)) != weights:  # the latter: version 0.1
            raise DataError(
                "the run was begun with other weights of episodes; bring the file that dataset.episode_weights or "
                "verdicts named back as it was, or start another run"
            )
        if record.get("instructions", self._instructions()) != self._instructions():
            raise DataError(
                "the run was begun with other corrected instructions; bring the file that verdicts named back as it "
                "was, or start another run"
            )
        self._read_ptr(folder / PTR_FILE)
        load_adam(self.optimiser, read_tensors(folder / OPTIMISER_FILE), folder / OPTIMISER_FILE)
        load_schedule(self.optimiser, record["scheduler"])
        self.loader.load_state_dict(record["loader"])
        sums = read_tensors(folder / SUMS_FILE)
        self.ledger.restore(sums["episode_totals"], is_main=self.optimiser.accelerator.is_main_process)
        self.window.load_state_dict(sums)
        return int(record["step"])

    def _read_ptr(self, file: Path) -> None:
        ptr = self.optimiser.module.ptr
        if self.optimiser.sharding is None:
            load_weights(ptr, file)
            return
        own = ptr.state_dict()
        ptr.load_state_dict({name: shared_like(value, own[name]) for name, value in read_tensors(file).items()})

    def _episode_weights(self) -> str | None:
        """A digest of how much each episode counts beforehand."""
        facts = self.optimiser.module.facts
        if facts is None or facts.episode_weights is None:
            return None
        return hashlib.sha256(facts.episode_weights.cpu().numpy().tobytes()).hexdigest()

    def _instructions(self) -> str:
        """A digest of those that stand in the place of recorded ones."""
        return fingerprint(sorted(self.preparation.instructions.items()))


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
        state.setdefault(numbers[name], {})[quantity] = shared_like(value, optimiser.parameters[name])
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
