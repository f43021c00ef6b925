"""Work in stages that are done once: a stage is skipped while its settings and its output are as they were."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptr_robot import __version__
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.files import atomic_file, fingerprint, process_lock
from ptr_robot.text_files import read_json

MARKERS = "stages"
BEGUN, COMPLETE, SPENT = "begun", "complete", "spent"


@dataclass(frozen=True)
class Stage:
    """One piece of work under ``root``: what it makes and every setting that the result depends on.

    ``after`` are the stages whose output it reads; when one of them changes, this one is done again.
    """

    root: Path
    name: str
    settings: dict[str, Any]
    after: tuple[Stage, ...] = ()

    @property
    def output(self) -> Path:
        """The folder that the stage makes."""
        return self.root / self.name

    @property
    def identity(self) -> str:
        """A name for the settings of this stage and of all before it."""
        return fingerprint(__version__, self.name, self.settings, [stage.identity for stage in self.after])

    @property
    def is_complete(self) -> bool:
        """Whether the output is there, whole and of these settings."""
        return self.output.is_dir() and _read_identity(self._marker(COMPLETE)) == self.identity

    @property
    def is_begun(self) -> bool:
        """Whether work with these settings was begun, so that what it left may be gone on with."""
        return self.output.is_dir() and _read_identity(self._marker(BEGUN)) == self.identity

    def begin(self) -> None:
        """Remove what an interrupted or a different run of this stage left, and note what is being made."""
        for state in (COMPLETE, SPENT):
            self._marker(state).unlink(missing_ok=True)
        shutil.rmtree(self.output, ignore_errors=True)
        self._mark(BEGUN)

    def finish(self) -> None:
        """Say that the output is whole; to be called when everything is written."""
        if not self.output.is_dir():
            raise DataError(f"{self.output}: the stage {self.name!r} ended without its output")
        self._mark(COMPLETE)
        self._marker(BEGUN).unlink(missing_ok=True)

    def spend(self) -> None:
        """Note that nobody needs the output once its user's result is written, so that a kill in between is no loss."""
        self._mark(SPENT)

    def discard_if_spent(self) -> None:
        """Remove what is no longer needed: its notes before it, so that what a kill leaves is not taken for whole."""
        if not self._marker(SPENT).exists():
            return
        for state in (BEGUN, COMPLETE):
            self._marker(state).unlink(missing_ok=True)
        shutil.rmtree(self.output, ignore_errors=True)
        self._marker(SPENT).unlink(missing_ok=True)

    def run(self, work: Callable[[], object]) -> bool:
        """Do the work unless it is done already; gives whether anything was done."""
        if self.is_complete:
            return False
        self.begin()
        work()
        self.finish()
        return True

    def _mark(self, state: str) -> None:
        record = {"identity": self.identity, "settings": self.settings}
        with atomic_file(self._marker(state)) as file:
            file.write((json.dumps(record, indent=1, default=str) + "\n").encode())

    def _marker(self, state: str) -> Path:
        return self.root / MARKERS / f"{self.name.replace('/', '-')}.{state}.json"


def claim(root: Path) -> None:
    """Make ``root`` a folder of stages; one that holds something else is left alone."""
    if root.is_dir() and any(root.iterdir()) and not (root / MARKERS).is_dir():
        raise ConfigError(f"{root} holds files that are not from an earlier run; choose another --output_dir")
    try:
        (root / MARKERS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{root} cannot be written ({error.strerror}); choose another --output_dir") from error


@contextlib.contextmanager
def occupied(root: Path, what: str) -> Iterator[None]:
    """Keep the folder to this process; the kernel lets go of it however the process ends."""
    with process_lock(root / what, wait=False) as is_mine:
        if not is_mine:
            raise ConfigError(f"{root} is in use by another {what}; wait for it or choose another --output_dir")
        yield


def _read_identity(marker: Path) -> str | None:
    try:
        identity: str = read_json(marker, "it is made again")["identity"]
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None
    return identity
