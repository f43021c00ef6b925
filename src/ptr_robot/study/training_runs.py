"""Several trainings side by side, each a ``ptr train`` of its own, with one bar for each."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, TaskID

from ptr_robot.errors import PTRError
from ptr_robot.progress import make_progress, show
from ptr_robot.train.records import read_records

LOG_FILE = "train.log"
_POLL_SECONDS = 0.5


class TrainingFailedError(PTRError):
    """A training process ended with an error of its own."""


@dataclass(frozen=True)
class TrainingCommand:
    """One run: its folder and the flags of ``ptr train`` that make it."""

    name: str
    run: Path
    steps: int
    flags: tuple[str, ...]

    @property
    def command(self) -> str:
        """What a user would type to do the same."""
        return "ptr train " + " ".join(shlex.quote(flag) for flag in self.flags)


@dataclass
class _Running:
    """A training under way."""

    training: TrainingCommand
    process: subprocess.Popen[bytes]
    bar: TaskID

    def show(self, progress: Progress) -> None:
        """Move the bar to the last record."""
        records = read_records(self.training.run)
        if not records:
            return
        last = records[-1]
        rate = last["step"] / max(progress.tasks[self.bar].elapsed or 0.0, 1e-9)
        show(progress, self.bar, int(last["step"]), f"{rate:.1f}/s, loss {last['action_loss']:.3f}")


def train_side_by_side(
    trainings: Sequence[TrainingCommand],
    logs: Path,
    console: Console,
    num_parallel: int,
    on_finished: Callable[[TrainingCommand], None],
) -> None:
    """Run all of them, ``num_parallel`` at a time, each with its share of the cores; tell of each that ended well.

    On a few cores two small trainings with one thread each get more done than one after the other with two. Whatever
    ends this function ends the trainings, which save a checkpoint on the way out.
    """
    waiting, running = list(trainings), list[_Running]()
    num_threads = max(1, len(os.sched_getaffinity(0)) // min(num_parallel, max(1, len(waiting))))
    with make_progress(console) as progress:
        try:
            while waiting or running:
                while waiting and len(running) < num_parallel:
                    running.append(_start(waiting.pop(0), logs, num_threads, progress))
                time.sleep(_POLL_SECONDS)
                for entry in [entry for entry in running if _is_over(entry, logs, progress)]:
                    running.remove(entry)
                    on_finished(entry.training)
        finally:
            for entry in running:
                entry.process.terminate()
            for entry in running:
                entry.process.wait()


def _start(training: TrainingCommand, logs: Path, num_threads: int, progress: Progress) -> _Running:
    logs.mkdir(parents=True, exist_ok=True)
    threads = {name: str(num_threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, "-m", "ptr_robot.cli.main", "train", *training.flags]
    with _log(training, logs).open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=os.environ | threads
        )
    return _Running(training, process, progress.add_task(f"training {training.name}", total=training.steps, rate=""))


def _is_over(entry: _Running, logs: Path, progress: Progress) -> bool:
    entry.show(progress)
    code = entry.process.poll()
    if code is None:
        return False
    if code != 0:
        log = _log(entry.training, logs)
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        reason = lines[-1].removeprefix("ptr: error: ") if lines else "it printed nothing"
        raise TrainingFailedError(f"training {entry.training.name} ended with code {code}: {reason} (all of it: {log})")
    return True


def _log(training: TrainingCommand, logs: Path) -> Path:
    return logs / f"{training.name}-{LOG_FILE}"
