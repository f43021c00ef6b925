"""Decoded and resized frames on disk: a frame is decoded once, whatever the number of epochs."""

from __future__ import annotations

import functools
import io
import math
import zlib
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import DatasetIndex, EpisodeRecord
from ptr_robot.data.lerobot.frames import decode_episode, resize_frame
from ptr_robot.errors import DataError
from ptr_robot.files import atomic_file, file_identity, fingerprint, path_inside, plain_name, process_lock

FORMAT = 2  # raised whenever decoding or resizing changes what a frame looks like, or how it is stored
_CHECKSUM_BYTES = 4


@dataclass(frozen=True)
class FrameCache:
    """The frames of one dataset at one size; an episode's camera is one file, made on its first use.

    A file's name holds what it was made from (the source file with its size and date, the span, the resize), so
    a changed dataset never meets an old frame. It appears under that name only when it is whole, is made again when
    a frame is not what its checksum says. Only the frames that are asked for are read: memory does not grow with the
    dataset, and a memory map of its own for every read would cost more than the frames.
    """

    index: DatasetIndex
    folder: Path
    size: int  # pixels, both sides
    mode: str = "pad"
    _paths: dict[tuple[int, str], Path] = field(default_factory=dict, repr=False, compare=False)
    _found: dict[Path, dict[str, list[str]]] = field(default_factory=dict, repr=False, compare=False)

    def read(self, episode: EpisodeRecord, key: str, frames: Sequence[int]) -> NDArray[np.uint8]:
        """Some frames of an episode, (n, 3, size, size); decodes the whole episode if it is not there or damaged."""
        self.ensure(episode, key)
        chosen = self._read_undamaged(episode, key, frames)
        if chosen is None:
            with self._lock(episode, key):
                chosen = self._read_undamaged(episode, key, frames)  # another process may have mended it
                if chosen is None:
                    self._fill(episode, key, self.path(episode, key))
                    chosen = self._read_undamaged(episode, key, frames)
        if chosen is None:
            path = self.path(episode, key)
            raise DataError(
                f"{path}: reads back otherwise than it was written; check the disk, or name another cache_dir"
            )
        return chosen

    def _read_undamaged(self, episode: EpisodeRecord, key: str, frames: Sequence[int]) -> NDArray[np.uint8] | None:
        """The frames, or None where they are not those that were written."""
        shape = self._shape(episode)
        start, frame_bytes = len(_header(shape)), math.prod(shape[1:])
        chosen = np.empty((len(frames), *shape[1:]), dtype=np.uint8)
        try:
            with self.path(episode, key).open("rb", buffering=0) as file:
                for picture, number in zip(chosen, frames, strict=True):
                    file.seek(start + number * frame_bytes)
                    if file.readinto(picture.data) != frame_bytes:
                        return None
                file.seek(start + episode.length * frame_bytes)
                checksums = np.frombuffer(file.read(), dtype="<u4")
        except (OSError, ValueError):
            return None
        found = [zlib.crc32(picture.data) for picture in chosen]
        is_undamaged = len(checksums) == episode.length and found == checksums[list(frames)].tolist()
        return chosen if is_undamaged else None

    def _shape(self, episode: EpisodeRecord) -> tuple[int, int, int, int]:
        return episode.length, 3, self.size, self.size

    def _lock(self, episode: EpisodeRecord, key: str, wait: bool = True) -> AbstractContextManager[bool]:
        return process_lock(self.path(episode, key).with_name(f"episode_{episode.episode_index:06d}"), wait)

    def ensure(self, episode: EpisodeRecord, key: str, wait: bool = True) -> None:
        """Decode an episode's camera now unless it is there; without ``wait``, not if another process is at it."""
        if self.is_ready(episode, key):
            return
        with self._lock(episode, key, wait) as is_my_turn:
            if is_my_turn and not self.is_ready(episode, key):
                self._fill(episode, key, self.path(episode, key))

    def is_ready(self, episode: EpisodeRecord, key: str) -> bool:
        """Whether the file is there and has its full size; what it holds is checked when it is read."""
        try:
            size = self.path(episode, key).stat().st_size
        except FileNotFoundError:
            return False
        shape = self._shape(episode)
        return size == len(_header(shape)) + math.prod(shape) + _CHECKSUM_BYTES * episode.length

    def path(self, episode: EpisodeRecord, key: str) -> Path:
        """Where the frames of an episode's camera are, or would be; the source file is looked at once."""
        place = (episode.episode_index, key)
        if place not in self._paths:
            self._paths[place] = self._make_path(episode, key)
        return self._paths[place]

    def _make_path(self, episode: EpisodeRecord, key: str) -> Path:
        span = episode.videos.get(key)
        source = episode.table if span is None else span.path
        start: Any = episode.first_row if span is None else span.from_timestamp
        made_from = (FORMAT, file_identity(source), start, episode.length, self.index.fps, self.size, self.mode)
        dataset = f"{plain_name(self.index.root.name)}-{fingerprint(str(self.index.root.resolve()))[:8]}"
        folder = path_inside(self.folder / "frames" / dataset, plain_name(key)) / f"{self.size}-{self.mode}"
        return folder / f"episode_{episode.episode_index:06d}-{fingerprint(*made_from)}.npy"

    def _fill(self, episode: EpisodeRecord, key: str, path: Path) -> None:
        """One frame in memory at a time; written as a plain file, since a full disk kills a mapped write."""
        checksums = []
        with atomic_file(path, sync=False) as file:
            file.write(_header(self._shape(episode)))
            for frame in decode_episode(episode, self.index.features[key], self.index.fps):
                content = resize_frame(frame, self.size, self.mode).tobytes()
                checksums.append(zlib.crc32(content))
                file.write(content)
            file.write(np.array(checksums, dtype="<u4").tobytes())
        for stale in self._older(path):
            stale.unlink(missing_ok=True)

    def _older(self, path: Path) -> list[Path]:
        """What was made of the same episode from other data; the folder is listed once, not for each episode."""
        if path.parent not in self._found:
            self._found[path.parent] = defaultdict(list)
            for file in path.parent.iterdir():
                self._found[path.parent][file.name.partition("-")[0]].append(file.name)
        names = self._found[path.parent].pop(path.name.partition("-")[0], [])
        return [path.with_name(name) for name in names if "-" in name and name != path.name]


@functools.lru_cache(maxsize=1024)
def _header(shape: tuple[int, ...]) -> bytes:
    """That of a ``.npy`` file, so that NumPy alone can open it; checksums of the frames follow the frames."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return file.getvalue()
