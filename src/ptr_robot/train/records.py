"""Where the numbers go: records.jsonl, TensorBoard and, for those who want it, Weights & Biases."""

from __future__ import annotations

import json
import math
import uuid
from pathlib import Path
from typing import Any

from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.files import atomic_file, cannot_write, open_own
from ptr_robot.train.config import TrainConfig

RECORDS_FILE = "records.jsonl"
TENSORBOARD_FOLDER = "tensorboard"
WANDB_ID_FILE = "wandb_id.txt"


class RunRecords:
    """One record every ``log_freq`` steps; a resumed run goes on after the step it resumes from."""

    def __init__(self, run: Path, config: TrainConfig, first_step: int) -> None:
        self._file = run / RECORDS_FILE
        self._drop_after(first_step)
        self._tensorboard = _start_tensorboard(run / TENSORBOARD_FOLDER, first_step)
        self._wandb = _start_wandb(run, config) if config.wandb.enable else None

    def add(self, step: int, record: dict[str, float]) -> None:
        """Append a record; numbers that are not finite are left out of it."""
        finite = {name: value for name, value in record.items() if math.isfinite(value)}
        try:
            with open_own(self._file, "a") as file:
                file.write(json.dumps({"step": step} | finite) + "\n")
            for name, value in finite.items():
                self._tensorboard.add_scalar(name, value, step)
            self._tensorboard.flush()
        except OSError as error:
            raise DataError(f"{self._file} could not be written at step {step}: {error.strerror}") from error
        if self._wandb is not None:
            self._wandb.log(finite, step=step)

    def close(self) -> None:
        """End the loggers; TensorBoard's writes in a thread, and tells here what went wrong in it."""
        try:
            self._tensorboard.close()
        except OSError as error:
            raise DataError(
                f"{self._file.parent}: TensorBoard's file could not be written ({error.strerror}); free some space, "
                "and go on with --resume=true"
            ) from error
        if self._wandb is not None:
            self._wandb.finish()

    def _drop_after(self, step: int) -> None:
        """Leave out what a killed run recorded after its last checkpoint: it happens again."""
        kept = [record for record in read_records(self._file.parent) if record["step"] <= step]
        with atomic_file(self._file) as file:
            file.write("".join(json.dumps(record) + "\n" for record in kept).encode())


def read_records(run: Path) -> list[dict[str, Any]]:
    """The records of a run, in their order."""
    records: list[dict[str, Any]] = []
    for number, line in enumerate(read_lines(run / RECORDS_FILE), start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{run / RECORDS_FILE}: line {number} is damaged; take it out") from error
        if not _is_record(record):
            raise DataError(f"{run / RECORDS_FILE}: line {number} is damaged; take it out")
        records.append(record)
    return records


def _is_record(value: Any) -> bool:
    """Numbers by name, as they are written; the step is a whole one."""
    return (
        isinstance(value, dict)
        and type(value.get("step")) is int
        and all(type(number) in (int, float) for number in value.values())
    )


def read_lines(file: Path) -> list[str]:
    """The whole lines of a file that may not be there; a line that a killed run did not finish is left out."""
    if not file.is_file():
        return []
    try:
        text = file.read_text()
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is damaged ({error}); take out what is not text") from error
    return text[: text.rfind("\n") + 1].splitlines()


def _start_tensorboard(folder: Path, first_step: int) -> Any:
    """What it recorded after ``first_step``, which happens again, is not shown."""
    tensorboard = require("torch.utils.tensorboard", "lerobot")
    try:
        return tensorboard.SummaryWriter(str(folder), purge_step=first_step + 1)
    except OSError as error:
        raise cannot_write(folder, error) from error


def _start_wandb(run: Path, config: TrainConfig) -> Any:
    """A resumed run goes on under the name that it was given when it began."""
    draccus = require("draccus", "lerobot")
    wandb, settings = require("wandb", "lerobot"), config.wandb
    identity = run / WANDB_ID_FILE
    if not identity.is_file():
        with atomic_file(identity) as file:
            file.write(uuid.uuid4().hex[:12].encode())
    try:
        return wandb.init(
            project=settings.project,
            entity=settings.entity,
            notes=settings.notes,
            mode=settings.mode,
            name=config.job_name,
            dir=str(run),
            config=draccus.encode(config),
            resume="allow",
            id=identity.read_text(),
        )
    except wandb.Error as error:
        raise ConfigError(
            f"Weights & Biases did not start ({error}); log in with `wandb login`, or add --wandb.mode=offline"
        ) from error
