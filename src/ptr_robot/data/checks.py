"""Finds the episodes of a dataset that cannot be used, and says why in one line each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ptr_robot.data.metadata import read_parquet
from ptr_robot.data.records import DatasetIndex, EpisodeProblem, EpisodeRecord, VideoSpan
from ptr_robot.data.tables import Columns, column_to_numpy, iterate_episodes
from ptr_robot.errors import DataError, require

Place = tuple[Path, int, int]  # of an episode: its table file, its first row there, the number of its rows


def locate_rows(index: DatasetIndex) -> tuple[DatasetIndex, list[EpisodeProblem]]:
    """The index with every episode's rows where the tables really hold them.

    The row is taken from the table's own episode column: LeRobot's converter from v2.1 names the wrong file
    for an episode that starts a new one, and LeRobot, which reads all files as one, does not notice.
    """
    places: dict[int, Place] = {}
    reasons: dict[Path, str] = {}
    for path in _tables_to_search(index):
        places.update(_rows_of_file(path, reasons))
    found: list[EpisodeRecord] = []
    problems: list[EpisodeProblem] = []
    for record in index.episodes:
        problem = _row_problem(record, places.get(record.episode_index), reasons)
        if problem is None:
            table, first_row, _ = places[record.episode_index]
            found.append(dataclasses.replace(record, table=table, first_row=first_row))
        else:
            problems.append(EpisodeProblem(record.episode_index, problem))
    return dataclasses.replace(index, episodes=tuple(found)), problems


def _tables_to_search(index: DatasetIndex) -> list[Path]:
    named = dict.fromkeys(record.table for record in index.episodes)
    if index.version == "v2.1":
        return list(named)
    return list(dict.fromkeys([*named, *sorted((index.root / "data").glob("*/*.parquet"))]))


def _rows_of_file(path: Path, reasons: dict[Path, str]) -> dict[int, Place]:
    """Where each episode of the file lies; a file that cannot be read goes to ``reasons``."""
    try:
        numbers = column_to_numpy(read_parquet(path, ["episode_index"]).column("episode_index"))
    except DataError as error:
        reasons[path] = str(error)
        return {}
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    lengths = np.diff(starts, append=len(numbers))
    return {int(numbers[s]): (path, int(s), int(n)) for s, n in zip(starts, lengths, strict=True)}


def _row_problem(record: EpisodeRecord, place: Place | None, reasons: dict[Path, str]) -> str | None:
    if place is None:
        reason = reasons.get(record.table, f"{record.table}: the file has no rows of it")
        return f"episode {record.episode_index}: {reason}"
    path, _, rows = place
    if rows != record.length:
        return f"{path}: episode {record.episode_index} has {rows} rows, its metadata says {record.length}"
    return None


def find_problems(index: DatasetIndex) -> list[EpisodeProblem]:
    """At most one problem an episode: its values and times first, then its videos."""
    problems = {problem.episode_index: problem for problem in _table_problems(index)}
    for record in index.episodes:
        if record.episode_index not in problems:
            message = next(_video_problems(record, index.fps), None)
            if message is not None:
                problems[record.episode_index] = EpisodeProblem(record.episode_index, message)
    return list(problems.values())


def _table_problems(index: DatasetIndex) -> Iterator[EpisodeProblem]:
    floats = [key for key in index.vector_keys if index.features[key].dtype.startswith("float")]
    columns = [*floats, "timestamp"]
    for _, group in groupby(index.episodes, key=lambda record: record.table):
        records = list(group)
        try:
            for record, values in iterate_episodes(index, columns, records):
                message = _value_problem(record, values, floats) or _time_problem(record, values, index.fps)
                if message is not None:
                    yield EpisodeProblem(record.episode_index, message)
        except DataError as error:
            for record in records:
                yield EpisodeProblem(record.episode_index, f"episode {record.episode_index}: {error}")


def _value_problem(record: EpisodeRecord, values: Columns, keys: Sequence[str]) -> str | None:
    for key in keys:
        frames = values[key].reshape(record.length, -1)  # (frames, D)
        bad = np.argwhere(~np.isfinite(frames))
        if len(bad):
            frame, dimension = bad[0]
            return (
                f"{record.table}: episode {record.episode_index} has {frames[frame, dimension]} in {key!r}, "
                f"frame {frame}, dimension {dimension} ({len(bad)} values in all)"
            )
    return None


def _time_problem(record: EpisodeRecord, values: Columns, fps: float) -> str | None:
    """Half a frame of drift is where looking up a frame by time would give its neighbour."""
    times = values["timestamp"].astype(np.float64).reshape(-1)  # (frames,) seconds
    drift = np.abs(times - times[0] - np.arange(len(times)) / fps)
    if len(times) < 2 or drift.max() <= 0.5 / fps:
        return None
    step = float(np.median(np.diff(times)))
    rate = f"{1 / step:.4g} Hz" if step > 0 else "0 s steps"
    return (
        f"{record.table}: episode {record.episode_index} has timestamps at {rate} while meta/info.json says "
        f"fps {fps:g} (off by {drift.max():.3g} s at frame {int(drift.argmax())})"
    )


def _video_problems(record: EpisodeRecord, fps: float) -> Iterator[str]:
    for key, span in record.videos.items():
        what = f"{span.path}: episode {record.episode_index}, {key!r}"
        if not span.path.is_file():
            yield f"{what}: no such file"
            continue
        status = span.path.stat()
        try:
            frames, rate = container_length(span.path, status.st_size, status.st_mtime_ns)
        except DataError as error:
            yield f"{what}: {error}"
            continue
        if abs(rate - fps) > 0.01 * fps:
            yield f"{what}: the video runs at {rate:.4g} fps, meta/info.json says {fps:g}"
            continue
        yield from _length_problems(what, record.length, span, frames, fps)


def _length_problems(what: str, length: int, span: VideoSpan, frames: int, fps: float) -> Iterator[str]:
    first = round(span.from_timestamp * fps)
    last = frames if span.to_timestamp is None else round(span.to_timestamp * fps)
    if last - first != length:
        yield f"{what}: the video has {last - first} frames, the table {length} rows"
    elif last > frames:
        yield f"{what}: the episode ends at frame {last} of the file, which has only {frames}"


@lru_cache(maxsize=4096)
def container_length(path: Path, size: int, modified_ns: int) -> tuple[int, float]:  # noqa: ARG001
    """Frames and frames a second of a video file by its container; cached while the file is unchanged."""
    av = require("av", "lerobot")
    try:
        with av.open(str(path)) as container:
            stream: Any = container.streams.video[0]
            rate = float(stream.average_rate)
            frames = stream.frames or round(float(stream.duration * stream.time_base) * rate)
    except (av.FFmpegError, IndexError, TypeError) as error:
        raise DataError(f"not a readable video ({error})") from error
    return int(frames), rate
