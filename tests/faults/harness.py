"""Runs a piece of work in forked processes, and has one of its file-system calls go wrong.

Each call that changes something below one folder is struck in up to three ways: the process is killed before it; the
disk is full; the process is killed after half of the bytes were written.
"""

from __future__ import annotations

import gc
import os
import socket
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ptr_robot.cli.main import main
from ptr_robot.errors import PTRError

from ..fuzz.conftest import no_output
from .system_calls import Call, Supervisor, watch_this_process

Work = Callable[[], None]


@dataclass(frozen=True)
class Ending:
    """How a forked process ended."""

    code: int  # 0: well, 1: an error of this package, 2: another one, -9: killed
    report: str  # the error


def run_forked(work: Work, supervisor: Supervisor | None = None) -> Ending:
    """Do the work in a child; what it prints is thrown away."""
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile("w+", errors="replace") as report:
        child = os.fork()
        if not child:
            _work_in_child(work, theirs if supervisor else None, report)
        if supervisor:
            _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
            supervisor.serve(listener)
        _, status = os.waitpid(child, 0)
        report.seek(0)
        return Ending(os.waitstatus_to_exitcode(status), report.read())


def _work_in_child(work: Work, parent: socket.socket | None, report: IO[str]) -> None:
    """Never returns."""
    code = 0
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        if parent is not None:
            listener = watch_this_process()
            socket.send_fds(parent, [b"!"], [listener])
            os.close(listener)  # only the parent's is left, so that nobody waits for a parent that has gone
        work()
    except PTRError as error:
        code = 1
        report.write(str(error))
    except BaseException:
        code = 2
        report.write(traceback.format_exc())
    report.flush()
    os._exit(code)


def run_command(arguments: list[str]) -> None:
    """As the shell would; what it complains about in one line is an error of this package, the rest passes through."""
    try:
        main(arguments)
    except SystemExit as ending:
        if ending.code:
            raise PTRError(f"ptr {arguments[0]} ended with {ending.code}") from ending


def warm(work: Work) -> None:
    """Do the work here once, so that every child finds the imports done: they are most of a tiny run."""
    with no_output():
        work()
    gc.freeze()  # children would copy what the collector touches


def list_calls(work: Work, root: Path) -> list[Call]:
    """Every call of an undisturbed run."""
    supervisor = Supervisor(str(root))
    ending = run_forked(work, supervisor)
    assert ending.code == 0, ending.report
    return supervisor.calls


def strike(work: Work, root: Path, number: int, fault: str) -> Ending:
    """The same work with one of its calls gone wrong."""
    return run_forked(work, Supervisor(str(root), number, fault))
