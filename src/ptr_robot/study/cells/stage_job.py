"""A job whose output is a folder of the study that settings alone decide."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ptr_robot.files import fingerprint
from ptr_robot.study.engine.jobs import Job
from ptr_robot.study.engine.stages import Stage


@dataclass(frozen=True)
class StageJob(Job):
    """A job whose output is a folder that settings alone decide; named after them, so that settings share it."""

    root: Path

    folder: ClassVar[str]

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything that the output depends on, beside the jobs before it."""

    @abstractmethod
    def make(self, output: Path) -> None:
        """Do the work."""

    @cached_property
    def stage(self) -> Stage:
        """The folder, and whether it is whole."""
        before = tuple(job.stage for job in self.after if isinstance(job, StageJob))
        name = fingerprint(self.settings, [stage.identity for stage in before])[:12]
        return Stage(self.root, f"{self.folder}/{name}", self.settings, before)

    @property
    def key(self) -> str:
        """Its folder."""
        return self.stage.name

    @property
    def output(self) -> Path:
        """Where the result lies."""
        return self.stage.output

    def is_done(self) -> bool:
        """Whether the folder is whole."""
        return self.stage.is_complete

    def run(self) -> None:
        """Make the folder."""
        self.stage.run(lambda: self.make(self.output))

    def fail(self, reason: str) -> None:
        """Nothing: the cells that need the folder note the reason."""
