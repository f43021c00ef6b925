"""A dataset that was recorded elsewhere, among the jobs of a study: read where it lies, and never made."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ptr_robot.envs.base import EnvironmentType
from ptr_robot.envs.registry import environment_type
from ptr_robot.files import fingerprint, refuse_foreign_files
from ptr_robot.study.cells.data_jobs import DatasetJob

USUAL_STATE = "observation.state"


@dataclass(frozen=True)
class RecordedJob(DatasetJob):
    """Episodes of which nothing is known."""

    dataset: Path
    state: str = USUAL_STATE
    env: str | None = None  # that has its tasks

    folder: ClassVar[str] = "recorded"  # of its name; the study's folder holds none

    @property
    def environment_type(self) -> EnvironmentType | None:
        """None where nobody simulates this robot."""
        return None if self.env is None else environment_type(self.env)

    @property
    def has_truth(self) -> bool:
        """Nobody knows."""
        return False

    @property
    def camera_size(self) -> None:
        """As the dataset says."""
        return None

    @property
    def state_key(self) -> str:
        """As the setting says."""
        return self.state

    def robot_file(self, robot: str | None) -> str | None:
        """As the setting says, or as the dataset's robot_type does."""
        return robot

    @property
    def title(self) -> str:
        """For the terminal."""
        return f"recordings {self.dataset.name}"

    @property
    def output(self) -> Path:
        """Where they lie."""
        return self.dataset

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What they hold, wherever they lie: the metadata with its statistics, and the size of every table."""
        refuse_foreign_files(self.dataset)
        metadata = {place: hashlib.sha256(file.read_bytes()).hexdigest() for place, file in self._files("meta")}
        tables = {place: file.stat().st_size for place, file in self._files("data")}
        return {"content": fingerprint(metadata, tables), "state_key": self.state}

    def is_done(self) -> bool:
        """They are there."""
        return True

    def run(self) -> None:
        """Nothing: they are there."""

    def make(self, output: Path) -> None:
        """Never: they are there."""

    def _files(self, part: str) -> list[tuple[str, Path]]:
        """The files of one folder of the dataset with their places in it."""
        files = sorted(path for path in (self.dataset / part).rglob("*") if path.is_file())
        return [(str(file.relative_to(self.dataset)), file) for file in files]
