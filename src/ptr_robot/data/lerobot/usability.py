"""Finds the episodes of a dataset that cannot be used, and says why in one line each."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ptr_robot.data.lerobot.contents import DatasetIndex, EpisodeProblem, EpisodeRecord, Feature, VideoSpan
from ptr_robot.data.lerobot.metadata import read_parquet, tasks_file
from ptr_robot.data.lerobot.tables import Columns, slice_episode
from ptr_robot.data.lerobot.videos import open_video
from ptr_robot.errors import DataError, require

TIME_AND_TASK = ("timestamp", "task_index")  # columns that every use of an episode needs


def find_problems(
    index: DatasetIndex, vector_keys: Sequence[str], camera_keys: Collection[str] | None = None
) -> list[EpisodeProblem]:
    """At most one problem an episode: the values of ``vector_keys`` and the times first, then the videos."""
    problems = list(_table_problems(index, vector_keys))
    bad = {problem.episode_index for problem in problems}
    sound = [record for record in index.episodes if record.episode_index not in bad]
    return [*problems, *find_video_problems(index, sound, camera_keys)]


def find_video_problems(
    index: DatasetIndex, episodes: Sequence[EpisodeRecord], camera_keys: Collection[str] | None = None
) -> Iterator[EpisodeProblem]:
    """At most one problem an episode with the videos of ``camera_keys`` (None: of every camera)."""
    starts = _starts_by_file(episodes, index.fps)
    for record in episodes:
        message = next(_video_problems(record, index.fps, camera_keys, starts), None)
        if message is not None:
            yield EpisodeProblem(record.episode_index, message)


def _table_problems(index: DatasetIndex, keys: Sequence[str]) -> Iterator[EpisodeProblem]:
    features = [index.features[key] for key in dict.fromkeys(keys) if key in index.vector_keys]
    columns = [*(feature.key for feature in features), *TIME_AND_TASK]
    for path, group in groupby(index.episodes, key=lambda record: record.table):
        records = list(group)
        try:
            table = read_parquet(path, columns)
        except DataError as error:
            for record in records:
                yield EpisodeProblem(record.episode_index, f"episode {record.episode_index}: {error}")
            continue
        for record in records:
            message = _record_problem(record, table, features, index)
            if message is not None:
                yield EpisodeProblem(record.episode_index, message)


def _record_problem(record: EpisodeRecord, table: Any, features: Sequence[Feature], index: DatasetIndex) -> str | None:
    try:
        values = slice_episode(table, record, [*(feature.key for feature in features), *TIME_AND_TASK])
    except DataError as error:
        return str(error)
    shapes = {feature.key: feature.shape for feature in features}
    return (
        _value_problem(record, values, {**shapes, **dict.fromkeys(TIME_AND_TASK, (1,))})
        or _time_problem(record, values, index.fps)
        or _task_problem(record, values, index)
    )


def _value_problem(record: EpisodeRecord, values: Columns, shapes: Mapping[str, tuple[int, ...]]) -> str | None:
    what = f"{record.table}: episode {record.episode_index}"
    for key, shape in shapes.items():
        frames = values[key].reshape(record.length, -1)  # (frames, D)
        bad = np.argwhere(~np.isfinite(frames))
        if len(bad):
            frame, dimension = bad[0]
            return (
                f"{what} has {frames[frame, dimension]} in {key!r}, "
                f"frame {frame}, dimension {dimension} ({len(bad)} values in all)"
            )
        if frames.shape[1] != math.prod(shape):
            return f"{what} has {frames.shape[1]} values in {key!r}, meta/info.json says {math.prod(shape)}"
        if values[key].ndim > 2 and values[key].shape[1:] != shape:
            return f"{what} has the shape {values[key].shape[1:]} in {key!r}, meta/info.json says {shape}"
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


def _task_problem(record: EpisodeRecord, values: Columns, index: DatasetIndex) -> str | None:
    """A frame whose instruction nobody knows."""
    numbers = values["task_index"].reshape(-1)  # (frames,)
    strange = [number for number in np.unique(numbers).tolist() if number not in index.tasks]
    if not strange:
        return None
    unknown = np.flatnonzero(np.isin(numbers, strange))
    frame = int(unknown[0])
    return (
        f"{record.table}: episode {record.episode_index} has task_index {numbers[frame]} in frame {frame}, which "
        f"{tasks_file(index.root, index.version)} does not name: add its instruction there"
    )


def _starts_by_file(episodes: Sequence[EpisodeRecord], fps: float) -> dict[Path, list[int]]:
    """The frames of each video file at which an episode starts, in order."""
    starts: dict[Path, list[int]] = defaultdict(list)
    for record in episodes:
        for span in record.videos.values():
            starts[span.path].append(round(span.from_timestamp * fps))
    return {path: sorted(frames) for path, frames in starts.items()}


def _video_problems(
    record: EpisodeRecord, fps: float, camera_keys: Collection[str] | None, starts: Mapping[Path, Sequence[int]]
) -> Iterator[str]:
    for key, span in record.videos.items():
        if camera_keys is not None and key not in camera_keys:
            continue
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
        first = round(span.from_timestamp * fps)
        later = bisect.bisect_right(starts[span.path], first)
        end = starts[span.path][later] if later < len(starts[span.path]) else frames
        yield from _length_problems(what, record.length, span, frames, fps, end)


def _length_problems(what: str, length: int, span: VideoSpan, frames: int, fps: float, end: int) -> Iterator[str]:
    """``end`` is where the file's next episode starts, or the file ends.

    A recorder that writes the time of the last frame as the end is one frame short in the metadata: what counts is
    that the frames are there and nobody else's.
    """
    first = round(span.from_timestamp * fps)
    last = frames if span.to_timestamp is None else round(span.to_timestamp * fps)
    if span.to_timestamp is not None and last - first == length - 1 and first + length <= min(end, frames):
        return
    if last - first != length:
        yield f"{what}: the video has {last - first} frames, the table {length} rows"
    elif last > frames:
        yield f"{what}: the episode ends at frame {last} of the file, which has only {frames}"


@lru_cache(maxsize=4096)
def container_length(path: Path, size: int, modified_ns: int) -> tuple[int, float]:  # noqa: ARG001
    """Frames and frames a second of a video file by its container; cached while the file is unchanged."""
    av = require("av", "lerobot")
    try:
        with open_video(path) as container:
            stream: Any = container.streams.video[0]
            rate = float(stream.average_rate)
            frames = stream.frames or round(float(stream.duration * stream.time_base) * rate)
    except (av.FFmpegError, IndexError, TypeError) as error:
        raise DataError(f"not a readable video ({error})") from error
    return int(frames), rate
