"""Runs a piece of work in forked processes, and has one of its file-system calls go wrong.

The calls are those that Python announces to audit hooks (opening for writing, renaming, removing, making folders and
links) below one folder. Each is struck in up to three ways: the process is killed before it; the disk is full; the
process is killed after a file was opened and filled in part.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ptr_robot.cli.main import main
from ptr_robot.errors import PTRError

from ..fuzz.conftest import no_output

Work = Callable[[], None]
CREATING = ("open", "os.mkdir", "os.link", "os.symlink", "os.rename", "os.truncate")
WATCHED = (*CREATING, "os.remove", "os.rmdir")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Call:
    """One file-system call of the work."""

    number: int
    event: str
    path: str

    @property
    def faults(self) -> tuple[str, ...]:
        """How it can go wrong."""
        full = ("full",) if self.event in CREATING else ()
        torn = ("torn",) if self.event == "open" else ()
        return ("kill", *full, *torn)


class _Watch:
    """The audit hook of a forked process: notes the calls below ``root`` and strikes at one of them."""

    def __init__(self, root: Path, number: int | None = None, fault: str = "") -> None:
        self.root, self.number, self.fault = str(root), number, fault
        self.calls: list[Call] = []

    def __call__(self, event: str, arguments: tuple) -> None:
        if event not in WATCHED or not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        if event == "open" and not (arguments[2] or 0) & WRITING:
            return
        path = str(Path.cwd() / os.fsdecode(arguments[0]))
        if not path.startswith(self.root):
            return
        number = len(self.calls)
        self.calls.append(Call(number, event, path))
        if number == self.number:
            self._strike(path)

    def _strike(self, path: str) -> None:
        if self.fault == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if self.fault == "torn":
            Path(path).write_bytes(b"\x00half of wh")
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Ending:
    """How a forked process ended."""

    code: int  # 0: well, 1: an error of this package, 2: another one, -9: killed
    report: str  # the error
    calls: tuple[Call, ...] = ()


def run_forked(work: Work, watch: _Watch | None = None) -> Ending:
    """Do the work in a child; what it prints is thrown away."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _work_in_child(work, watch, writer)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        report = pipe.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    lines = report.splitlines() if watch and code == 0 else []
    calls = tuple(Call(number, *line.split("\t", 1)) for number, line in enumerate(lines))
    return Ending(code, report, calls)


def _work_in_child(work: Work, watch: _Watch | None, writer: int) -> None:
    """Never returns."""
    code, report = 0, ""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        if watch is not None:
            sys.addaudithook(watch)
        work()
        if watch is not None:
            report = "".join(f"{call.event}\t{call.path}\n" for call in watch.calls)
    except PTRError as error:
        code, report = 1, str(error)
    except BaseException:
        code, report = 2, traceback.format_exc()
    with os.fdopen(writer, "w", errors="replace") as pipe:
        pipe.write(report)
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


def list_calls(work: Work, root: Path) -> tuple[Call, ...]:
    """Every call of an undisturbed run."""
    ending = run_forked(work, _Watch(root))
    assert ending.code == 0, ending.report
    return ending.calls


def strike(work: Work, root: Path, call: Call, fault: str) -> Ending:
    """The same work with one of its calls gone wrong."""
    return run_forked(work, _Watch(root, call.number, fault))
