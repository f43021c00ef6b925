"""The property of everything that is read: it is used, or refused in one line, and nothing else is touched."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from ptr_robot.cli.main import main
from ptr_robot.errors import PTRError

INPUTS = int(os.environ.get("PTR_ROBOT_FUZZ", "0"))
LONGEST_SECONDS = 60  # far above any input's time on a busy machine, far below a loop that does not end
MOST_BYTES = 1 << 30  # that all inputs together may add
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
EVENTS = (
    "open",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.rename",
    "os.truncate",
    "os.remove",
    "os.rmdir",
    "shutil.rmtree",
)

# In the suite the same few inputs each time, so that it fails for a change and for nothing else.
fuzz_settings = settings(
    max_examples=INPUTS or 12,
    derandomize=not INPUTS,
    database=None,
    phases=[Phase.explicit, Phase.generate],  # a damaged file is read as it is: shrinking it takes minutes
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
# For inputs that take seconds each.
slow_fuzz_settings = settings(fuzz_settings, max_examples=max(1, INPUTS // 10) if INPUTS else 12)


needs_time = pytest.mark.skipif(not INPUTS, reason="takes minutes: run it with make fuzz")


class FileSystemWatch:
    """Notes every change outside the folders that may change; Python keeps audit hooks, so one serves all tests."""

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] | None = None
        self.outside: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple) -> None:
        if self.allowed is None or event not in EVENTS or not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        if event == "open" and not (arguments[2] or 0) & WRITING:
            return
        path = str(Path.cwd() / os.fsdecode(arguments[0]))
        if not path.startswith((*self.allowed, "/dev/", "/proc/")) or "/../" in path:
            self.outside.append(f"{event} {path}")


_watch = FileSystemWatch()


class Prober:
    """Runs one input after the other and counts them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count, self.refused = folder, 0, 0

    def __call__(self, read: Callable[[], object]) -> None:
        """``read`` ends well or with an error of this package of one line, in time, with nothing changed elsewhere."""
        self.count += 1
        complaint = ""
        temporary, tempfile.tempdir = tempfile.tempdir, str(self.folder)  # libraries' own passing files are no harm
        _watch.allowed, _watch.outside = (str(self.folder), *_python_caches()), []
        signal.signal(signal.SIGALRM, _too_slow)
        signal.alarm(LONGEST_SECONDS)
        try:
            read()
        except PTRError as error:
            self.refused += 1
            complaint = str(error)
        finally:
            signal.alarm(0)
            _watch.allowed, tempfile.tempdir = None, temporary
        assert not _watch.outside
        assert "\n" not in complaint.strip()
        assert len(complaint) < 8000

    def command(self, *arguments: str) -> None:
        """The same of ``ptr`` by its own entry point: exit code 0, or 1 with one line."""
        self(lambda: _run_command(arguments))


def _run_command(arguments: tuple[str, ...]) -> None:
    complaints = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(complaints):
        try:
            main(arguments)
        except SystemExit as ending:
            code = ending.code
    if code:
        lines = complaints.getvalue().splitlines()
        assert code == 1
        assert [line.startswith("ptr: error: ") for line in lines].count(True) == 1, lines[-3:]
        assert lines[-1].startswith("ptr: error: "), lines[-3:]
        raise PTRError(lines[-1])


def _too_slow(*_: object) -> None:
    raise AssertionError(f"an input took more than {LONGEST_SECONDS} s")


def _python_caches() -> list[str]:
    """Where Python keeps compiled modules, and libraries their locks and caches."""
    hugging_face = os.environ.get("HF_HOME", str(Path("~/.cache/huggingface").expanduser()))
    matplotlib = [str(Path(place).expanduser()) for place in ("~/.config/matplotlib", "~/.cache/matplotlib")]
    return [sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), hugging_face, *matplotlib]


@pytest.fixture
def probe(tmp_path, record_property):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    prober = Prober(tmp_path)
    yield prober
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < MOST_BYTES
    record_property("counted", f"{prober.count} inputs tried, {prober.refused} refused in one line")


@contextlib.contextmanager
def no_output():
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield
