"""Files: where they may lie, what they are named after, and how they appear whole."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ptr_robot.errors import DataError

_unfinished: set[Path] = set()  # what this process is writing
_LONGEST_NAME = 255  # bytes that a file system takes


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


def path_inside(root: Path, name: str) -> Path:
    """Where ``name``, which a dataset or a checkpoint gives, lies below ``root``: nothing leads out of it."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        raise DataError(f"{root}: {name[:200]!r} is not the name of a file inside this folder")
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
        raise DataError(f"{root}: {name[:60]!r}... is too long for the name of a file")
    return root.joinpath(*parts)


def plain_name(text: str) -> str:
    """``text`` as the name of one file: itself if that is plain, otherwise its letters and a fingerprint."""
    plain = re.sub(r"[^\w.-]", "_", text, flags=re.ASCII).lstrip(".")[:100]
    return text if plain == text and text else f"{plain}-{fingerprint(text)[:8]}"


def refuse_foreign_files(root: Path, *, may_link_out: bool = False, left_alone: str | None = None) -> None:
    """Raise if something below ``root`` is no part of what was received, or no file that can be read to its end.

    That is a symbolic link that leads out of it, a pipe, a socket or a device. Links of the hub's own cache, which
    keeps the files of ``snapshots/COMMIT`` in ``blobs``, are part of it. ``may_link_out``: links are followed, for
    what is read and neither copied nor written. ``left_alone``: a folder in ``root`` that is not looked into.
    """
    inside = [root.resolve()]
    if (cache := next((folder for folder in inside[0].parents if folder.name == "snapshots"), None)) is not None:
        inside.append(cache.parent / "blobs")
    for entry in _entries_below(root, left_alone):
        is_plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
        if entry.is_symlink():
            path = Path(entry.path)
            if not may_link_out and not any(_real(path).is_relative_to(place) for place in inside):
                raise DataError(f"{path}: a link that leads out of {root}; put the file itself in its place")
            is_plain = path.is_file() or path.is_dir() or not path.exists()
        if not is_plain:
            raise DataError(f"{entry.path}: neither a file nor a folder, but a pipe, a socket or a device; remove it")


def _entries_below(root: Path, left_alone: str | None) -> Iterator[os.DirEntry[str]]:
    """Everything below ``root``, links not followed."""
    folders = [str(root)]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    yield entry
                    if entry.is_dir(follow_symlinks=False) and entry.path != str(root / (left_alone or "")):
                        folders.append(entry.path)
        except OSError as error:
            raise DataError(f"{folder}: cannot be read ({error.strerror}); give yourself the right to it") from error


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # a loop
        raise DataError(
            f"{path}: a link that cannot be followed ({error}); put the file itself in its place"
        ) from error


@contextlib.contextmanager
def process_lock(path: Path, wait: bool = True) -> Iterator[bool]:
    """Let one process at a time make ``path``; the kernel frees the lock if the process dies.

    Gives whether it is this one's turn, which without ``wait`` it may not be.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Neither what a link in its place points at, nor what the file holds, is changed.
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise cannot_write(path, error) from error
    with os.fdopen(descriptor, "r+b") as lock:
        yield _lock(lock, wait)


def _lock(file: IO[bytes], wait: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def atomic_file(path: Path, sync: bool = True) -> Iterator[IO[bytes]]:
    """Write a file that appears at ``path`` when the block ends well, and not at all otherwise.

    To be used under ``process_lock``; what a killed process left is then written over. Without ``sync`` a
    power cut may leave a short file: for large files whose reader checks their size.
    """
    partial = path.with_name(f"{path.name}.partial")
    _unfinished.add(partial)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)  # what a killed process left, or a link
        with partial.open("xb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        _unfinished.discard(partial)
        _remove(partial)


def open_own(path: Path, mode: str) -> IO[str]:
    """Open a file of an output folder to write ("w") or to go on writing ("a"); a link in its place is an error."""
    return open(path, mode, encoding="utf-8", opener=_open_no_link)


def _open_no_link(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)  # nor does a pipe keep it waiting
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise DataError(f"{path}: a link or a pipe in the place of a file that is written; remove it") from error


@contextlib.contextmanager
def workspace_beside(output: Path) -> Iterator[Path]:
    """A folder for what is to become ``output``, on the same disk; removed at the end with what is left in it.

    A lock on the folder itself says that its process lives. What killed ones left is removed first.
    """
    prefix = f".{output.name}.partial-"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        for path in output.parent.glob(f"{glob.escape(prefix)}*"):
            _remove_abandoned(path)
        folder, lock = _locked_folder(output.parent, prefix)
    except OSError as error:
        raise cannot_write(output, error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock; made again if another process took it for abandoned."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder, lock
            os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    """Remove a workspace whose process is gone."""
    with contextlib.suppress(OSError):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def forget_unfinished_files() -> None:
    """To be called in a forked process, which inherits the list of its parent's."""
    _unfinished.clear()


def remove_unfinished_files() -> None:
    """For a process that ends in the middle of ``atomic_file``."""
    for partial in _unfinished:
        _remove(partial)


def _remove(path: Path) -> None:
    """Remove a file if it is there and can be removed."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> DataError:
    """The error of a file that the disk refused."""
    return DataError(
        f"{path}: cannot be written ({error.strerror}); nothing was left behind. "
        "Free some space there, or name another place: cache_dir for frames, output_dir for results"
    )
