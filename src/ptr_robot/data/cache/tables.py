"""State, action and task of every frame of a source as memory-mapped arrays, with their statistics."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import DatasetIndex
from ptr_robot.data.lerobot.feature_statistics import RunningStatistics, episode_vectors
from ptr_robot.data.lerobot.tables import iterate_episodes
from ptr_robot.data.robots.normalisers import VectorStatistics
from ptr_robot.errors import DataError
from ptr_robot.files import atomic_file, file_identity, fingerprint, path_inside, plain_name, process_lock
from ptr_robot.text_files import read_json_object

FORMAT = 2
SUMMARY_FILE = "statistics.json"  # written last: it says that the rest is whole, and what it adds up to
ARRAYS = ("states", "actions", "tasks")


@dataclass(frozen=True)
class TableCache:
    """The frames of the usable episodes, one after the other; arrays are mapped where they are used."""

    folder: Path
    first_frame: dict[int, int]  # by episode index: its first frame in the arrays

    @property
    def states(self) -> NDArray[np.float32]:
        """(frames, Ds), mapped."""
        return self._map("states")

    @property
    def actions(self) -> NDArray[np.float32]:
        """(frames, Da), mapped."""
        return self._map("actions")

    @property
    def task_indices(self) -> NDArray[np.int64]:
        """(frames,), mapped."""
        return self._map("tasks")

    def statistics(self, name: str) -> VectorStatistics:
        """Of "states" or "actions"."""
        record = read_json_object(self.folder / SUMMARY_FILE, "remove the folder, and it is made again")
        return VectorStatistics.from_dict(record[name])

    def _map(self, name: str) -> NDArray[Any]:
        return _map_array(self.folder / f"{name}.npy")


@lru_cache(maxsize=256)
def _map_array(path: Path) -> NDArray[Any]:
    """Held by the process, not by ``TableCache``: a mapped array would be copied whole into a spawned worker."""
    mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def open_tables(index: DatasetIndex, state_key: str, action_key: str, cache_dir: Path) -> TableCache:
    """The arrays of a source, made in one pass over its table files unless they are there already, undamaged."""
    files = dict.fromkeys(episode.table for episode in index.episodes)
    episodes = [(episode.episode_index, episode.first_row, episode.length) for episode in index.episodes]
    name = fingerprint(FORMAT, [file_identity(file) for file in files], episodes, state_key, action_key)
    folder = path_inside(cache_dir / "tables", f"{plain_name(index.root.name)}-{name}")
    if not _is_undamaged(folder):
        with process_lock(folder):
            if not _is_undamaged(folder):
                _fill(index, state_key, action_key, folder)
    starts = np.cumsum([0, *(episode.length for episode in index.episodes)])
    first_frame = {e.episode_index: int(start) for e, start in zip(index.episodes, starts, strict=False)}
    return TableCache(folder, first_frame)


def _is_undamaged(folder: Path) -> bool:
    """Whether the arrays are those that the summary was written for; what is damaged is made again."""
    try:
        summary = read_json_object(folder / SUMMARY_FILE, "")
        return all(_checksum(folder / f"{name}.npy") == summary["checksums"][name] for name in ARRAYS)
    except (DataError, OSError, KeyError, TypeError, OverflowError):
        return False


def _checksum(path: Path) -> int:
    """Against disks and accidents; nobody else writes in the cache."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return value


def _fill(index: DatasetIndex, state_key: str, action_key: str, folder: Path) -> None:
    keys = {"states": state_key, "actions": action_key}
    running = {name: RunningStatistics(index.feature(key).size, index.num_frames) for name, key in keys.items()}
    with (
        atomic_file(folder / "states.npy") as states,
        atomic_file(folder / "actions.npy") as actions,
        atomic_file(folder / "tasks.npy") as tasks,
    ):
        files = {"states": states, "actions": actions}
        for name, key in keys.items():
            _write_header(files[name], "<f4", (index.num_frames, index.feature(key).size))
        _write_header(tasks, "<i8", (index.num_frames,))
        for episode, columns in iterate_episodes(index, [*dict.fromkeys(keys.values()), "task_index"]):
            for name, key in keys.items():
                frames = episode_vectors(index, episode, columns, key)
                running[name].add(frames)
                files[name].write(np.ascontiguousarray(frames, dtype="<f4").tobytes())
            tasks.write(columns["task_index"].astype("<i8").tobytes())
    _map_array.cache_clear()  # a mapping of what was replaced would go on showing it
    summary: dict[str, Any] = {name: part.result().to_dict() for name, part in running.items()}
    summary["checksums"] = {name: _checksum(folder / f"{name}.npy") for name in ARRAYS}
    with atomic_file(folder / SUMMARY_FILE) as file:
        file.write(json.dumps(summary).encode())


def _write_header(file: IO[bytes], dtype: str, shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
