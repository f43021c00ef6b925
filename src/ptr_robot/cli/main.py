"""The entry point of ``ptr``: finds the verb, runs it, and turns every expected error into one line."""

from __future__ import annotations

import errno
import importlib
import io
import shutil
import signal
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from ptr_robot import __version__
from ptr_robot.cli.flags import program
from ptr_robot.errors import ConfigError, PTRError, did_you_mean
from ptr_robot.text_files import printable

VERBS: dict[str, str] = {
    "collect": "record scripted operators of stated skill in simulation as a LeRobot dataset",
    "corrupt": "write a corrupted copy of a dataset, with the ground truth of what was done",
    "demo": "collect mixed-quality demonstrations, train SFT, PTR, screening and the clean part, and compare",
    "eval": "run a checkpoint over tasks and seeds, and report its success",
    "export": "act on scores: LeRobot's commands, weights, a filtered copy; or a policy in another layout",
    "info": "show what is in a dataset, and what is odd about it",
    "report": "one page on a dataset: which episodes hurt, where in them, and why",
    "score": "score every episode without training: keep, flag or drop, and why",
    "serve": "serve a trained policy over a websocket, for robots that speak openpi's protocol",
    "study": "compare methods over data conditions and seeds, and print the tables",
    "train": "post-train a policy: PTR, plain fine-tuning, or anything between",
}


_REFUSALS = {
    errno.ENAMETOOLONG: "give a shorter path",
    errno.EMFILE: "raise the limit of open files (ulimit -n 1024), or lower --num_workers",
    errno.ENFILE: "too many files are open on this machine",
    errno.EACCES: "give yourself the right to it, or name another place",
    errno.EPERM: "give yourself the right to it, or name another place",
    errno.EROFS: "name another place",
    errno.ENOSPC: "free some space there, or name another place",
    errno.EDQUOT: "free some space there, or name another place",
    errno.EIO: "the disk failed",
}


def usage() -> str:
    """The text that ``ptr --help`` prints."""
    lines = [f"ptr {__version__}: post-train robot policies on mixed demonstrations", ""]
    lines += ["usage: ptr VERB [--flags]", "", "verbs:"]
    width = min(100, shutil.get_terminal_size().columns)
    for verb, text in VERBS.items():
        lines += textwrap.wrap(text, width, initial_indent=f"  {verb:<9} ", subsequent_indent=" " * 12)
    lines += ["", "`ptr VERB --help` lists the flags of a verb."]
    return "\n".join(lines)


def run(arguments: Sequence[str]) -> int:
    """Run one verb and return the exit code; errors pass through."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(usage() + "\n")
        return 0
    if arguments[0] == "--version":
        sys.stdout.write(__version__ + "\n")
        return 0
    _refuse_bytes(arguments)
    verb = arguments[0]
    if verb not in VERBS:
        raise ConfigError(f"there is no verb {verb!r}; {did_you_mean(verb, VERBS)}")
    program.set(f"ptr {verb}")
    module = importlib.import_module(f"ptr_robot.cli.{verb}")
    return int(module.main(list(arguments[1:])) or 0)


def _refuse_bytes(arguments: Sequence[str]) -> None:
    """Names that are no text cannot be written into the files that name datasets and runs."""
    for word in arguments:
        if any("\ud800" <= letter <= "\udfff" for letter in word):  # how Python shows bytes that are no UTF-8
            raise ConfigError(f"{word!a:.200} is no text in UTF-8; rename what it names")


class StopSignals:
    """A job scheduler's stop cleans up as Ctrl-C does; ``ptr train`` saves first, with handlers of its own.

    Signals are noted as well: a library that is interrupted while it is imported may fail in another way later.
    """

    def __init__(self) -> None:
        self.was_stopped = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and the shell's & leave it
                self._previous[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _stop(self, *_: object) -> None:
        self.was_stopped = True
        raise KeyboardInterrupt


def _refusal(error: BaseException) -> str | None:
    """What the system refused, in one line; None for an error that is this program's own."""
    refused: BaseException | None = error
    while refused is not None:
        if isinstance(refused, OSError) and refused.errno in _REFUSALS:
            place = f"{str(refused.filename)[:300]}: " if refused.filename else ""
            return f"{place}{refused.strerror}; {_REFUSALS[refused.errno]}"
        if isinstance(refused, MemoryError):
            return "out of memory; lower --batch_size or --num_workers, or take a machine with more of it"
        refused = refused.__cause__ or refused.__context__
    return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Console script: exit code 0 on success, 1 on an expected error, 130 on Ctrl-C or SIGTERM."""
    signals = StopSignals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without the letters of a name still shows it
    try:
        with signals:
            code = run(sys.argv[1:] if arguments is None else arguments)
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if signals.was_stopped or isinstance(error, KeyboardInterrupt):
            sys.stderr.write("ptr: interrupted\n")
            code = 130
        elif isinstance(error, PTRError):
            sys.stderr.write(f"ptr: error: {printable(str(error))}\n")
            code = 1
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EPIPE) and error.filename is None:
            sys.stderr.write(f"ptr: error: the output could not be written ({error.strerror})\n")
            sys.stdout = None  # nothing more goes there, not at the end either
            code = 1
        elif (reason := _refusal(error)) is not None:
            sys.stderr.write(f"ptr: error: {printable(reason)}\n")
            code = 1
        else:
            raise
    sys.exit(code)


if __name__ == "__main__":
    main()
