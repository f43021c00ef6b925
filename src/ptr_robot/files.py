"""Files that can be made again: where they live, what they are named after, and how they appear whole."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ptr_robot.errors import DataError

_unfinished: set[Path] = set()  # what this process is writing


def default_cache_dir() -> Path:
    """``$XDG_CACHE_HOME/ptr_robot``, by default ``~/.cache/ptr_robot``."""
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "ptr_robot"


def fingerprint(*parts: Any) -> str:
    """A short name for these values: another value gives another name, so nothing stale is ever found."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:20]


def file_identity(path: Path) -> tuple[str, int, int]:
    """What changes when a file does: its place, its size and when it was written."""
    status = path.stat()
    return str(path.resolve()), status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def only_one_process(path: Path, wait: bool = True) -> Iterator[bool]:
    """Let one process at a time make ``path``; the kernel frees the lock if the process dies.

    Gives whether it is this one's turn, which without ``wait`` it may not be.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(path.name + ".lock").open("w")
    except OSError as error:
        raise _cannot_write(path, error) from error
    with lock:
        yield _lock(lock, wait)


def _lock(file: IO[str], wait: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def whole_file(path: Path, sync: bool = True) -> Iterator[IO[bytes]]:
    """Write a file that appears at ``path`` when the block ends well, and not at all otherwise.

    To be used under ``only_one_process``; what a killed process left is then written over. Without ``sync`` a
    power cut may leave a short file: for large files whose reader checks their size.
    """
    partial = path.with_name(f"{path.name}.partial")
    _unfinished.add(partial)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        _unfinished.discard(partial)
        _remove(partial)


def forget_unfinished_files() -> None:
    """To be called in a forked process, which inherits the list of its parent's."""
    _unfinished.clear()


def remove_unfinished_files() -> None:
    """For a process that ends in the middle of ``whole_file``."""
    for partial in _unfinished:
        _remove(partial)


def _remove(path: Path) -> None:
    """Remove a file if it is there and can be removed."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _cannot_write(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path}: cannot be written ({error.strerror}); nothing was left behind. "
        "Free some space there, or name another place: cache_dir for frames, output_dir for results"
    )
