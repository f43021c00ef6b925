"""Decoded and resized frames on disk, memory-mapped: a frame is decoded once, whatever the number of epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import DatasetIndex, EpisodeRecord
from ptr_robot.data.lerobot.frames import decode_episode, resize_frame
from ptr_robot.files import atomic_file, file_identity, fingerprint, path_inside, plain_name, process_lock

FORMAT = 1  # raised whenever decoding or resizing changes what a frame looks like


@dataclass(frozen=True)
class FrameCache:
    """The frames of one dataset at one size; an episode's camera is one file, made on its first use.

    A file's name holds what it was made from (the source file with its size and date, the span, the resize), so
    a changed dataset never meets an old frame. It appears under that name only when it is whole, and is mapped
    for each read and let go: memory does not grow with the dataset.
    """

    index: DatasetIndex
    folder: Path
    size: int  # pixels, both sides
    mode: str = "pad"
    _paths: dict[tuple[int, str], Path] = field(default_factory=dict, repr=False, compare=False)

    def read(self, episode: EpisodeRecord, key: str, frames: Sequence[int]) -> NDArray[np.uint8]:
        """Some frames of an episode, (n, 3, size, size); the first call decodes the whole episode."""
        self.ensure(episode, key)
        stored = np.load(self.path(episode, key), mmap_mode="r", allow_pickle=False)
        chosen: NDArray[np.uint8] = np.asarray(stored[list(frames)])
        return chosen

    def ensure(self, episode: EpisodeRecord, key: str, wait: bool = True) -> None:
        """Decode an episode's camera now unless it is there; without ``wait``, not if another process is at it."""
        if self.is_ready(episode, key):
            return
        path = self.path(episode, key)
        with process_lock(path.with_name(f"episode_{episode.episode_index:06d}"), wait) as is_my_turn:
            if is_my_turn and not self.is_ready(episode, key):
                self._fill(episode, key, path)

    def is_ready(self, episode: EpisodeRecord, key: str) -> bool:
        """Whether the file is there and holds every frame."""
        try:
            size = self.path(episode, key).stat().st_size
        except FileNotFoundError:
            return False
        return size > episode.length * 3 * self.size**2  # the frames and a header

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
        header = {
            "descr": "|u1",
            "fortran_order": False,
            "shape": (episode.length, 3, self.size, self.size),
        }
        with atomic_file(path, sync=False) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for frame in decode_episode(episode, self.index.features[key], self.index.fps):
                file.write(resize_frame(frame, self.size, self.mode).tobytes())
        for stale in path.parent.glob(f"episode_{episode.episode_index:06d}-*"):
            if stale != path:
                stale.unlink(missing_ok=True)
