"""Processes that stay: each takes one job after the other, so that slow imports are paid once and not once a job."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import cast

from ptr_robot.envs.workers import end_with_parent
from ptr_robot.errors import PTRError
from ptr_robot.files import open_own
from ptr_robot.study.engine.jobs import Job

_SECONDS_TO_END = 20.0
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class JobResult:
    """How a job ended; without a reason it ended well."""

    job: Job
    seconds: float
    reason: str | None = None


class JobWorker:
    """One process, and the job it is at."""

    def __init__(self, number: int, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._log = logs / f"worker-{number}.log"
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, self._log), daemon=False)
        with _one_thread_each():
            self._process.start()
        theirs.close()
        self.job: Job | None = None
        self._started = 0.0

    def give(self, job: Job) -> None:
        """Start on a job; the worker must be free."""
        self.job, self._started = job, time.monotonic()
        self.connection.send(job)

    def result(self) -> JobResult:
        """The end of its job, once ``connection`` has something; a process that died is a reason, too."""
        assert self.job is not None
        job, self.job = self.job, None
        try:
            reason = self.connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            reason = f"its process ended with code {code}, perhaps for want of memory; see {self._log}"
        return JobResult(job, time.monotonic() - self._started, reason)

    @property
    def is_alive(self) -> bool:
        """Whether it can take another job."""
        return self._process.is_alive()

    def dismiss(self) -> None:
        """Let a free worker go; one that is at a job is asked to stop."""
        if self.job is not None:
            self._process.terminate()
        with contextlib.suppress(OSError):
            self.connection.close()

    def join(self) -> None:
        """Wait for its end, and no longer than a checkpoint takes."""
        self._process.join(_SECONDS_TO_END)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def first_ready(workers: list[JobWorker], timeout: float) -> list[JobWorker]:
    """The workers whose job has ended, as soon as there is one, or none when the time is up."""
    busy = {worker.connection: worker for worker in workers if worker.job is not None}
    return [busy[cast("Connection", ready)] for ready in wait(list(busy), timeout)]


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """What a child process inherits, torch's threads too: cells share the cores by being several, not by threads."""
    previous = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(connection: Connection, log: Path) -> None:
    """Do jobs until the parent hangs up; what they print goes to the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends the workers in order
    signal.signal(signal.SIGTERM, _stop)
    end_with_parent()
    with open_own(log, "a") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            connection.send(_attempt(connection.recv()))
            release_memory()


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """End as an error would, so that a job removes what it has half written; training saves, with a handler of its own.

    Another signal does not disturb the removing: whoever asked waits, and kills what takes too long.
    """
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _attempt(job: Job) -> str | None:
    sys.stderr.write(f"== {job.title}\n")
    try:
        job.run()
    except Exception as error:
        traceback.print_exc()
        text = " ".join(str(error).split()) or "no message"
        return text if isinstance(error, PTRError) else f"{type(error).__name__}: {text}"
    return None


def release_memory() -> None:
    """Give back to the system what ended jobs no longer use; the C library would keep it, and more after every job."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # another C library has no such call
        ctypes.CDLL("libc.so.6").malloc_trim(0)
