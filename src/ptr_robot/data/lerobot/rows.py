"""Finds what the tables say of each episode: its file, its rows, its global frame indices and its instructions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import DatasetIndex, EpisodeProblem, EpisodeRecord
from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.data.lerobot.tables import read_column, slice_episode
from ptr_robot.errors import DataError

_MOST = 2.0**53  # of frames and episodes


@dataclass(frozen=True)
class Place:
    """Where the tables hold an episode."""

    table: Path
    first_row: int
    num_rows: int
    first_index: int  # global frame index of the first row
    last_index: int


def locate_rows(index: DatasetIndex) -> tuple[DatasetIndex, list[EpisodeProblem]]:
    """The index with every episode's rows, and their global frame indices, as the tables really hold them.

    The rows are found by the table's own episode column: LeRobot's converter from v2.1 names the wrong file
    for an episode that starts a new one, and LeRobot, which reads all files as one, does not notice. The global
    indices come from the table too: after an episode was deleted they are not what the lengths add up to.
    """
    places: dict[int, Place] = {}
    reasons: dict[Path, str] = {}
    twice: dict[int, str] = {}
    for path in _tables_to_search(index):
        for number, place in _rows_of_file(path, reasons):
            other = places.setdefault(number, place)
            if other is not place:
                twice[number] = f"episode {number}: {other.table} has rows of it, and {path} others; remove one of them"
    found: list[EpisodeRecord] = []
    problems: list[EpisodeProblem] = []
    for record in index.episodes:
        number = record.episode_index
        problem = twice.get(number) or _row_problem(record, places.get(number), reasons)
        if problem is None:
            found.append(_placed(record, places[record.episode_index]))
        else:
            problems.append(EpisodeProblem(record.episode_index, problem))
    shared = list(_shared_indices(found))
    problems += shared
    kept = [record for record in found if record.episode_index not in {problem.episode_index for problem in shared}]
    return dataclasses.replace(index, episodes=tuple(kept), total_frames=_end_of_indices(index, kept)), problems


def read_instructions(index: DatasetIndex) -> Iterator[EpisodeRecord]:
    """The episodes with the instructions that their frames name: training goes by those, so everything else must.

    The texts that LeRobot repeats beside each episode stay as they were when somebody edits the list of tasks.
    """
    for path, records in groupby(index.episodes, key=lambda record: record.table):
        table = read_parquet(path, ["task_index"])
        for record in records:
            numbers = dict.fromkeys(slice_episode(table, record, ["task_index"])["task_index"].reshape(-1).tolist())
            yield dataclasses.replace(record, tasks=tuple(dict.fromkeys(index.tasks[number] for number in numbers)))


def _placed(record: EpisodeRecord, place: Place) -> EpisodeRecord:
    return dataclasses.replace(record, table=place.table, first_row=place.first_row, first_index=place.first_index)


def _end_of_indices(index: DatasetIndex, records: Sequence[EpisodeRecord]) -> int:
    """One more than the highest global frame index, so that the next source's can start there."""
    return max(index.total_frames, *(record.first_index + record.length for record in (*records, *index.episodes)))


def _shared_indices(records: Sequence[EpisodeRecord]) -> Iterator[EpisodeProblem]:
    """Episodes whose global frame indices belong to another already: samples could not be separated."""
    end, owner = 0, -1
    for record in sorted(records, key=lambda record: record.first_index):
        if record.first_index < end:
            yield EpisodeProblem(
                record.episode_index,
                f"{record.table}: episode {record.episode_index} starts at index {record.first_index}, which is "
                f"episode {owner}'s; number the column 'index' through the whole dataset",
            )
        else:
            end, owner = record.first_index + record.length, record.episode_index


def _tables_to_search(index: DatasetIndex) -> list[Path]:
    named = dict.fromkeys(record.table for record in index.episodes)
    if index.version == "v2.1":
        return list(named)
    return list(dict.fromkeys([*named, *sorted((index.root / "data").glob("*/*.parquet"))]))


def _rows_of_file(path: Path, reasons: dict[Path, str]) -> list[tuple[int, Place]]:
    """Where each episode of the file lies, once for rows in a row; a file that cannot be read goes to ``reasons``."""
    try:
        table = read_parquet(path, ["episode_index", "index"])
        numbers, indices = (_whole_numbers(table, key, path) for key in ("episode_index", "index"))
    except DataError as error:
        reasons[path] = str(error)
        return []
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    lengths = np.diff(starts, append=len(numbers))
    return [
        (int(numbers[start]), Place(path, int(start), int(n), int(indices[start]), int(indices[start + n - 1])))
        for start, n in zip(starts, lengths, strict=True)
    ]


def _whole_numbers(table: Any, key: str, path: Path) -> NDArray[np.int64]:  # (rows,)
    values = read_column(table, key, str(path))
    if len(values) != values.size:
        raise DataError(f"{path}: {key!r} holds lists, not one number a row; fetch it again")
    values = values.reshape(-1)
    if not (np.abs(values.astype(np.float64)) < _MOST).all() or (values != values.astype(np.int64)).any():
        raise DataError(f"{path}: {key!r} has cells that are empty or no whole numbers; fetch it again")
    return values.astype(np.int64)


def _row_problem(record: EpisodeRecord, place: Place | None, reasons: dict[Path, str]) -> str | None:
    if place is None:
        reason = reasons.get(record.table, f"{record.table}: the file has no rows of it")
        return f"episode {record.episode_index}: {reason}"
    what = f"{place.table}: episode {record.episode_index}"
    if place.num_rows != record.length:
        return f"{what} has {place.num_rows} rows, its metadata says {record.length}"
    if place.last_index - place.first_index != record.length - 1:
        return (
            f"{what} has {record.length} rows, its column 'index' runs from {place.first_index} to {place.last_index}"
        )
    return None
