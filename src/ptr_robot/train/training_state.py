"""What a resumed run needs besides the policy: safetensors and JSON in a ``training_state`` folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ptr_robot.data.loader import SegmentLoader
from ptr_robot.errors import DataError, require
from ptr_robot.policy.save import load_weights
from ptr_robot.train.episodes import EpisodeLedger
from ptr_robot.train.metrics import MetricWindow
from ptr_robot.train.optimisation import Optimiser

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

    def write(self, folder: Path, step: int, episode_totals: Tensor) -> None:
        """Fill a folder that is not in its place yet."""
        folder.mkdir()
        optimiser = self.optimiser
        save_tensors(adam_tensors(optimiser), folder / OPTIMISER_FILE)
        save_tensors(optimiser.module.ptr.state_dict(), folder / PTR_FILE)
        save_tensors({"episode_totals": episode_totals, **self.window.state_dict()}, folder / SUMS_FILE)
        record = {"step": step, "scheduler": optimiser.schedule.state_dict(), "loader": self.loader.state_dict()}
        (folder / STATE_FILE).write_text(json.dumps(record, indent=2) + "\n")

    def read(self, folder: Path) -> int:
        """Take everything back, in place; gives the number of steps that were done."""
        record = read_state(folder)
        load_weights(self.optimiser.module.ptr, folder / PTR_FILE)
        load_adam(self.optimiser, read_tensors(folder / OPTIMISER_FILE), folder / OPTIMISER_FILE)
        load_schedule(self.optimiser, record["scheduler"])
        self.loader.load_state_dict(record["loader"])
        sums = read_tensors(folder / SUMS_FILE)
        self.ledger.restore(sums["episode_totals"], is_main=self.optimiser.accelerator.is_main_process)
        self.window.load_state_dict(sums)
        return int(record["step"])


def read_state(folder: Path) -> dict[str, Any]:
    """The JSON part of a training state."""
    file = folder / STATE_FILE
    try:
        record: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read ({error}); resume from another checkpoint") from error
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
    optimiser.adam.load_state_dict({"state": state, "param_groups": optimiser.adam.state_dict()["param_groups"]})


def load_schedule(optimiser: Optimiser, state: dict[str, Any]) -> None:
    """Take the schedule back, and with it the learning rate of the next step."""
    optimiser.schedule.load_state_dict(state)
    for group, rate in zip(optimiser.adam.param_groups, optimiser.schedule.get_last_lr(), strict=True):
        group["lr"] = rate


def save_tensors(tensors: dict[str, Tensor], file: Path) -> None:
    """A safetensors file; what the disk refuses is an OSError."""
    safetensors = require("safetensors", "lerobot")
    try:
        require("safetensors.torch", "lerobot").save_file(
            {name: tensor.detach().contiguous() for name, tensor in tensors.items()}, file
        )
    except safetensors.SafetensorError as error:
        raise OSError(str(error)) from error


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read a safetensors file back."""
    safetensors = require("safetensors", "lerobot")
    try:
        tensors: dict[str, Tensor] = require("safetensors.torch", "lerobot").load_file(file)
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{file} cannot be read ({error}); resume from another checkpoint") from error
    return tensors
