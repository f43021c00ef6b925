"""What a person sees while a study runs: a bar with the time left, and a line for every job that ended."""

from __future__ import annotations

import time
from collections import defaultdict
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ptr_robot.study.cells.cell import Cell
from ptr_robot.study.engine.job_workers import JobResult
from ptr_robot.study.engine.jobs import Job
from ptr_robot.study.engine.runner import RunState
from ptr_robot.train.records import read_records
from ptr_robot.train.step_progress import duration


class StudyProgress:
    """To be entered around ``run_study``, which calls it."""

    def __init__(self, console: Console, num_workers: int) -> None:
        self._console = console
        self._num_workers = num_workers
        self._started = time.monotonic()
        self._seconds: dict[type[Job], list[float]] = defaultdict(list)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("jobs", total=None, text="")

    def __enter__(self) -> StudyProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, state: RunState, result: JobResult | None) -> None:
        """Move the bar, and print how a job ended."""
        if result is not None:
            if result.reason is None:
                self._seconds[type(result.job)].append(result.seconds)
            line = f"[{state.num_done}/{state.num_jobs}] {describe(result)}{self._left(state)}"
            self._console.print(escape(line), soft_wrap=True, highlight=False)
        text = f"{self._rate(state)}{self._left(state)}{_under_way(state) if self._console.is_terminal else ''}"
        self._bar.update(self._task, completed=state.num_done, total=state.num_jobs, text=text)

    def _rate(self, state: RunState) -> str:
        hours = max(time.monotonic() - self._started, 1e-9) / 3600
        return f"{state.num_done / hours:.0f} an hour"

    def _left(self, state: RunState) -> str:
        """From the mean time of each kind of job; nothing until every kind that is left was seen."""
        jobs = [*state.running, *state.waiting]
        if not jobs or any(not self._seconds[type(job)] for job in jobs):
            return ""
        means = {kind: sum(seconds) / len(seconds) for kind, seconds in self._seconds.items() if seconds}
        # A job under way is half done, on average.
        work = sum(means[type(job)] * (0.5 if job in state.running else 1.0) for job in jobs)
        return f"; {duration(work / self._num_workers)} left"


def _under_way(state: RunState) -> str:
    """How far each training is, by its last record."""
    steps = []
    for job in state.running:
        records = read_records(job.run_folder) if isinstance(job, Cell) else []
        if records and isinstance(job, Cell):
            steps.append(f"{job.row.name} {int(records[-1]['step'])}/{job.training.steps}")
    return f"; {', '.join(steps)}" if steps else ""


def describe(result: JobResult) -> str:
    """One line on how a job ended."""
    if result.reason is not None:
        return f"{result.job.title} failed: {result.reason}"
    success = ""
    if isinstance(result.job, Cell):
        record = result.job.read()
        success = f": success {record.success_of():.2f}" if record and record.episodes else ""
    return f"{result.job.title}{success} in {result.seconds:.0f} s"
