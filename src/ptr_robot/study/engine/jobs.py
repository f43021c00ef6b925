"""A piece of a study's work: what it needs done before, whether it is done, and how it is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable


class Job(ABC):
    """One piece of work for one process; jobs of equal ``key`` are the same work."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Its name within the study."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What the terminal calls it."""

    @property
    def after(self) -> tuple[Job, ...]:
        """The jobs whose results it reads."""
        return ()

    @abstractmethod
    def is_done(self) -> bool:
        """Whether its result is there, whole and of these settings."""

    @abstractmethod
    def run(self) -> None:
        """Do the work; called in a worker process."""

    @abstractmethod
    def fail(self, reason: str) -> None:
        """Leave a note of why it could not be done, where it has a place for one."""


def with_needed(jobs: Iterable[Job]) -> list[Job]:
    """The jobs that are not done, each after those that it needs; what only serves finished work is left out."""
    ordered: dict[str, Job] = {}

    def visit(job: Job) -> None:
        if job.key in ordered or job.is_done():
            return
        for needed in job.after:
            visit(needed)
        ordered[job.key] = job

    for job in jobs:
        visit(job)
    return list(ordered.values())
