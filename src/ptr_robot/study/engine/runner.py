"""Does a study's jobs on all cores: each as soon as what it needs is done, the others going on where one fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptr_robot.study.engine.job_workers import JobResult, JobWorker, first_ready
from ptr_robot.study.engine.jobs import Job

LOGS_FOLDER = "logs"
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class RunState:
    """How a run stands: for those who watch."""

    num_done: int
    num_jobs: int
    running: tuple[Job, ...]
    waiting: tuple[Job, ...]


Watcher = Callable[[RunState, JobResult | None], None]


@dataclass
class _Queue:
    """Jobs in their order, and what became of them."""

    waiting: list[Job]
    unfinished: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)  # of jobs that failed, by key

    def __post_init__(self) -> None:
        self.unfinished = {job.key for job in self.waiting}

    def take(self) -> Job | None:
        """The first job that lacks nothing."""
        for job in self.waiting:
            if not any(needed.key in self.unfinished for needed in job.after):
                self.waiting.remove(job)
                return job
        return None

    def end(self, result: JobResult) -> list[JobResult]:
        """Note how a job ended; gives it and the jobs that can never be done because of it."""
        self.unfinished.discard(result.job.key)
        if result.reason is None:
            return [result]
        self.reasons[result.job.key] = result.reason
        result.job.fail(result.reason)
        ended = [result]
        for job in [job for job in self.waiting if any(needed.key == result.job.key for needed in job.after)]:
            if job not in self.waiting:  # it needed another one that could not be done either
                continue
            self.waiting.remove(job)
            ended += self.end(JobResult(job, 0.0, f"{result.job.title} failed: {result.reason}"))
        return ended


def run_jobs(jobs: Sequence[Job], num_workers: int, root: Path, watch: Watcher) -> dict[str, str]:
    """Do all of them, which must stand after those they need; gives the reasons of those that failed, by key.

    Whatever ends this function ends its processes; a job that was under way is begun again by the next run.
    """
    queue = _Queue(list(jobs))
    if not jobs:
        return {}
    workers = [JobWorker(number, root / LOGS_FOLDER) for number in range(min(num_workers, len(jobs)))]
    num_done = 0
    try:
        while queue.unfinished:
            _hand_out(queue, workers, root)
            watch(_state(queue, workers, num_done, len(jobs)), None)
            for worker in first_ready(workers, _POLL_SECONDS):
                for result in queue.end(worker.result()):
                    num_done += 1
                    watch(_state(queue, workers, num_done, len(jobs)), result)
    finally:
        for worker in workers:
            worker.dismiss()
        for worker in workers:
            worker.join()
    return queue.reasons


def _hand_out(queue: _Queue, workers: list[JobWorker], root: Path) -> None:
    for place, worker in enumerate(workers):
        if worker.job is None and queue.waiting:
            if not worker.is_alive:
                worker.join()
                workers[place] = worker = JobWorker(place, root / LOGS_FOLDER)
            job = queue.take()
            if job is None:
                return
            worker.give(job)


def _state(queue: _Queue, workers: list[JobWorker], num_done: int, num_jobs: int) -> RunState:
    running = tuple(worker.job for worker in workers if worker.job is not None)
    return RunState(num_done, num_jobs, running, tuple(queue.waiting))
