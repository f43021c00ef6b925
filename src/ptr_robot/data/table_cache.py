"""State, action and task of every frame of a source as memory-mapped arrays, with their statistics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.cache import file_identity, fingerprint, only_one_process, whole_file
from ptr_robot.data.normalisers import VectorStatistics
from ptr_robot.data.records import DatasetIndex
from ptr_robot.data.tables import iterate_episodes
from ptr_robot.errors import DataError

FORMAT = 1
QUANTILE_FRAMES = 500_000  # quantiles look at evenly spaced frames, at most this many


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
        record = json.loads((self.folder / "statistics.json").read_text())
        return VectorStatistics.from_dict(record[name])

    def _map(self, name: str) -> NDArray[Any]:
        return _map_array(self.folder / f"{name}.npy")


@lru_cache(maxsize=256)
def _map_array(path: Path) -> NDArray[Any]:
    """Held by the process, not by ``TableCache``: a mapped array would be copied whole into a spawned worker."""
    mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


def open_tables(index: DatasetIndex, state_key: str, action_key: str, cache_dir: Path) -> TableCache:
    """The arrays of a source, made in one pass over its table files unless they are there already."""
    files = dict.fromkeys(episode.table for episode in index.episodes)
    episodes = [(episode.episode_index, episode.first_row, episode.length) for episode in index.episodes]
    name = fingerprint(FORMAT, [file_identity(file) for file in files], episodes, state_key, action_key)
    folder = cache_dir / "tables" / f"{index.root.name}-{name}"
    finished = folder / "statistics.json"  # written last: it says that the rest is whole
    if not finished.is_file():
        with only_one_process(folder):
            if not finished.is_file():
                _fill(index, state_key, action_key, folder)
    starts = np.cumsum([0, *(episode.length for episode in index.episodes)])
    first_frame = {e.episode_index: int(start) for e, start in zip(index.episodes, starts, strict=False)}
    return TableCache(folder, first_frame)


def _fill(index: DatasetIndex, state_key: str, action_key: str, folder: Path) -> None:
    sizes = {"states": index.feature(state_key).size, "actions": index.feature(action_key).size}
    names = {"states": state_key, "actions": action_key}
    for name, key in names.items():
        with whole_file(folder / f"{name}.npy") as file:
            _write_header(file, "<f4", (index.num_frames, sizes[name]))
            for frames in _vectors(index, key):
                file.write(np.ascontiguousarray(frames, dtype="<f4").tobytes())
    with whole_file(folder / "tasks.npy") as file:
        _write_header(file, "<i8", (index.num_frames,))
        for _, columns in iterate_episodes(index, ["task_index"]):
            file.write(columns["task_index"].astype("<i8").tobytes())
    statistics = {name: compute_statistics(index, key).to_dict() for name, key in names.items()}
    with whole_file(folder / "statistics.json") as file:
        file.write(json.dumps(statistics).encode())


def _write_header(file: IO[bytes], dtype: str, shape: tuple[int, ...]) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})


def _vectors(index: DatasetIndex, key: str) -> Iterator[NDArray[np.float64]]:
    """The frames (length, D) of a vector feature, episode by episode."""
    size = index.feature(key).size
    for episode, columns in iterate_episodes(index, [key]):
        frames = columns[key].reshape(episode.length, -1).astype(np.float64)
        if frames.shape[1] != size:
            raise DataError(
                f"{episode.table}: episode {episode.episode_index} has {frames.shape[1]} values in {key!r}, "
                f"meta/info.json says {size}"
            )
        yield frames


def compute_statistics(index: DatasetIndex, key: str) -> VectorStatistics:
    """Statistics of a vector feature, holding one table file and the frames for the quantiles at most."""
    stride = max(1, -(-index.num_frames // QUANTILE_FRAMES))
    size = index.feature(key).size
    count, mean, squares = 0, np.zeros(size), np.zeros(size)
    minimum, maximum = np.full(size, np.inf), np.full(size, -np.inf)
    sampled: list[NDArray[np.float64]] = []
    for frames in _vectors(index, key):
        sampled.append(frames[(-count) % stride :: stride])
        merged, shift = count + len(frames), frames.mean(axis=0) - mean
        squares += frames.var(axis=0) * len(frames) + shift**2 * count * len(frames) / merged
        mean, count = mean + shift * len(frames) / merged, merged
        minimum, maximum = np.minimum(minimum, frames.min(axis=0)), np.maximum(maximum, frames.max(axis=0))
    q01, q99 = np.quantile(np.concatenate(sampled), [0.01, 0.99], axis=0)
    return VectorStatistics(count, minimum, maximum, mean, np.sqrt(squares / count), q01, q99)
