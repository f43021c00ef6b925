"""Reads the metadata folder of a LeRobot dataset; the two versions differ here and nowhere else."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from ptr_robot.data.lerobot.contents import EpisodeRecord, Feature, VideoSpan
from ptr_robot.data.lerobot.parquet_footer import ColumnSize, column_sizes
from ptr_robot.data.lerobot.templates import place_file
from ptr_robot.errors import DataError, require
from ptr_robot.text_files import read_json_object, read_json_objects

SUPPORTED_VERSIONS = ("v2.1", "v3.0")
_MOST_VALUES = 2**31  # in one frame of one feature
_MOST = 2**53  # of frames, episodes and tasks
_RATES = (1e-3, 1e5)  # frames a second; outside of them times could not be compared with frames
_VALUES_PER_BYTE = 64  # in a parquet file: LeRobot's have below one, a bomb has thousands
_FEW_VALUES = 2**20
_BYTES_AT_ONCE = 2**26  # of texts that are unpacked before they are counted
_MOST_TEXT_BYTES, _BYTES_PER_BYTE = 2**26, 200  # that a file with texts may unpack to


def read_info(root: Path) -> dict[str, Any]:
    """``meta/info.json``, with the fields that everything else depends on checked."""
    path = root / "meta" / "info.json"
    if not path.is_file():
        raise DataError(f"{path}: no such file; a LeRobot dataset has one (is this its own folder?)")
    info = read_json_object(path, "fetch the dataset again")
    version = info.get("codebase_version")
    if version not in SUPPORTED_VERSIONS:
        supported = " and ".join(SUPPORTED_VERSIONS)
        raise DataError(f"{path}: codebase_version is {version!r}; this package reads {supported}")
    for field in ("fps", "features", "data_path"):
        if field not in info:
            raise DataError(f"{path}: the field {field!r} is missing; fetch the dataset again")
    fps, (slowest, fastest) = info["fps"], _RATES
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not slowest <= fps <= fastest:
        raise DataError(f"{path}: fps is {str(fps)[:60]}; it must be a number between {slowest:g} and {fastest:g}")
    robot_type = info.get("robot_type")
    if not isinstance(robot_type, str | None):
        raise DataError(f"{path}: robot_type is {robot_type!r}; it must be a name or null")
    with _well_formed(path):
        for key, feature in read_features(info).items():
            if not 0 < feature.size <= _MOST_VALUES:
                raise DataError(f"{path}: the feature {key[:200]!r} has the shape {feature.shape}; fetch it again")
    return info


@contextlib.contextmanager
def _well_formed(path: Path) -> Iterator[None]:
    """Turn what a field that is missing or of another type causes into one line that names the file."""
    try:
        yield
    except DataError:
        raise
    except KeyError as error:
        raise DataError(f"{path}: the field {error} is missing; fetch the dataset again") from error
    except (TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise DataError(f"{path}: a field is not of the type LeRobot writes ({error}); fetch it again") from error


def read_features(info: Mapping[str, Any]) -> dict[str, Feature]:
    """The features by key, in the dataset's own order."""
    return {
        key: Feature(
            key, str(entry["dtype"]), tuple(map(whole_number, entry["shape"])), _flat_names(entry.get("names"))
        )
        for key, entry in info["features"].items()
    }


def whole_number(value: Any) -> int:
    """A count or a number of something, as metadata hold it; ``int`` alone would take 0.9, "1" and true."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or abs(value) > _MOST:
        raise TypeError(f"{str(value)[:60]} is not a whole number")
    return int(value)


def _flat_names(names: Any) -> tuple[str, ...]:
    """Dimension names from the three spellings in use: a list, a list in a list, lists in a mapping."""
    if isinstance(names, str):
        return (names,)
    if isinstance(names, Mapping):
        names = list(names.values())
    if isinstance(names, (list, tuple)):
        return tuple(flat for name in names for flat in _flat_names(name))
    return ()


def tasks_file(root: Path, version: str) -> Path:
    """Where a dataset names its instructions."""
    return root / "meta" / ("tasks.jsonl" if version == "v2.1" else "tasks.parquet")


def read_tasks(root: Path, version: str) -> dict[int, str]:
    """The instructions by task index."""
    path = tasks_file(root, version)
    with _well_formed(path):
        if version == "v2.1":
            return _unique_tasks((line["task_index"], line["task"]) for line in read_json_lines(path))
        table = read_parquet(path).to_pandas()
        texts = table["task"] if "task" in table.columns else table.index
        return _unique_tasks(zip(table["task_index"].tolist(), texts.tolist(), strict=True))


def _unique_tasks(pairs: Iterable[tuple[Any, Any]]) -> dict[int, str]:
    """Instructions by number; which of two under one number the frames mean, nobody could say."""
    tasks: dict[int, str] = {}
    for number, text in pairs:
        if not isinstance(text, str):
            raise TypeError(f"the instruction of task_index {number!r} is {text!r:.60}, not a text")
        if tasks.setdefault(whole_number(number), text) != text:
            raise ValueError(f"task_index {number} has two instructions")
    return tasks


def read_episodes(root: Path, info: Mapping[str, Any]) -> list[EpisodeRecord]:
    """Every episode that the metadata names, in order, whether or not its files are sound."""
    cameras = [key for key, entry in info["features"].items() if entry["dtype"] == "video"]
    reader = _episodes_v21 if info["codebase_version"] == "v2.1" else _episodes_v30
    episodes = sorted(reader(root, info, cameras), key=lambda record: record.episode_index)
    if not episodes:
        raise DataError(f"{root}: the metadata names no episode; record or fetch the dataset again")
    for one, other in pairwise(episodes):
        if one.episode_index == other.episode_index:
            raise DataError(f"{root}: the metadata names episode {one.episode_index} twice; fetch the dataset again")
    return episodes


def _episodes_v21(root: Path, info: Mapping[str, Any], cameras: list[str]) -> list[EpisodeRecord]:
    """The first index is what the lengths add up to until ``rows.locate_rows`` reads it from the tables."""
    records: list[EpisodeRecord] = []
    first_index = 0
    path = root / "meta" / "episodes.jsonl"
    chunk_size = _chunk_size(root, info)
    with _well_formed(path):
        for line in sorted(read_json_lines(path), key=lambda line: whole_number(line["episode_index"])):
            number, length = whole_number(line["episode_index"]), whole_number(line["length"])
            place = {"episode_chunk": number // chunk_size, "episode_index": number}
            videos = {
                key: VideoSpan(place_file(root, info, "video_path", {"video_key": key, **place})) for key in cameras
            }
            table = place_file(root, info, "data_path", place)
            records.append(EpisodeRecord(number, length, _instructions(line), first_index, table, 0, videos))
            first_index += length
    return records


def _chunk_size(root: Path, info: Mapping[str, Any]) -> int:
    """How many episodes of a v2.1 dataset share a folder."""
    path = root / "meta" / "info.json"
    with _well_formed(path):
        size = whole_number(info.get("chunks_size", 1000))
        if size < 1:
            raise DataError(f"{path}: chunks_size is {size}; it must be 1 or more")
        return size


def _episodes_v30(root: Path, info: Mapping[str, Any], cameras: list[str]) -> list[EpisodeRecord]:
    """The first row of each is found by ``rows.locate_rows``, in the tables."""
    folder = root / "meta" / "episodes"
    files = sorted(folder.glob("*/*.parquet"))
    if not files:
        raise DataError(f"{folder}: no episode metadata here; fetch the dataset again")
    records: list[EpisodeRecord] = []
    for file in files:
        with _well_formed(file):
            records += [_episode_v30(root, info, row, cameras) for row in _episode_rows(file)]
    return records


def _episode_v30(root: Path, info: Mapping[str, Any], row: Mapping[str, Any], cameras: list[str]) -> EpisodeRecord:
    return EpisodeRecord(
        episode_index=whole_number(row["episode_index"]),
        length=whole_number(row["length"]),
        tasks=_instructions(row),
        first_index=whole_number(row["dataset_from_index"]),
        table=place_file(root, info, "data_path", _place(row, "data")),
        first_row=0,
        videos={key: _span_v30(root, info, row, key) for key in cameras},
    )


def _instructions(row: Mapping[str, Any]) -> tuple[str, ...]:
    if not isinstance(row["tasks"], list):
        raise TypeError(f"tasks is {row['tasks']!r}, not a list")
    return tuple(map(str, row["tasks"]))


def _episode_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of one episode file without its statistics, which are many columns and not needed here."""
    parquet = require("pyarrow.parquet", "lerobot")
    try:
        names = [name for name in parquet.read_schema(file).names if not name.startswith("stats/")]
    except (OSError, ValueError, NotImplementedError) as error:  # the last is how Arrow calls a type it does not know
        raise DataError(f"{file}: not a readable parquet file ({error}); fetch the dataset again") from error
    rows: list[dict[str, Any]] = read_parquet(file, names).to_pylist()
    return rows


def _place(row: Mapping[str, Any], prefix: str) -> dict[str, int]:
    return {"chunk_index": row[f"{prefix}/chunk_index"], "file_index": row[f"{prefix}/file_index"]}


def video_file(root: Path, info: Mapping[str, Any], row: Mapping[str, Any], key: str) -> Path:
    """The file that holds an episode's video of the camera ``key`` in a v3.0 dataset."""
    return place_file(root, info, "video_path", {"video_key": key, **_place(row, f"videos/{key}")})


def _span_v30(root: Path, info: Mapping[str, Any], row: Mapping[str, Any], key: str) -> VideoSpan:
    start, end = (float(row[f"videos/{key}/{side}_timestamp"]) for side in ("from", "to"))
    if not 0 <= start <= end < math.inf:
        raise DataError(
            f"{root}: episode {row['episode_index']} lies from {start} to {end} s in the video of {key[:200]!r}; "
            "fetch the dataset again"
        )
    return VideoSpan(video_file(root, info, row, key), start, end)


def read_parquet(path: Path, columns: list[str] | None = None) -> Any:
    """A whole parquet file as an Arrow table; a missing or truncated one is one clear line."""
    parquet = require("pyarrow.parquet", "lerobot")
    if not path.is_file():
        raise DataError(f"{path}: no such file; the metadata names it, so the dataset is incomplete")
    try:
        metadata = parquet.read_metadata(path)
        absent = [column for column in columns or () if column not in metadata.schema.to_arrow_schema().names]
        sizes = column_sizes(path)
        _refuse_bomb(path, sizes)
        if not absent:
            return _read_table(path, metadata, sizes, columns)
    except (OSError, ValueError, NotImplementedError) as error:  # the last is how Arrow calls a type it does not know
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not a readable parquet file ({reason}); fetch it again") from error
    raise DataError(f"{path}: the column {absent[0]!r} is missing; fetch it again")


def _read_table(path: Path, metadata: Any, sizes: list[list[ColumnSize]], columns: list[str] | None) -> Any:
    """All at once, or in parts where there are texts: one that is stored once may stand in every row."""
    arrow, parquet = (require(name, "lerobot") for name in ("pyarrow", "pyarrow.parquet"))
    chosen = [field for field in metadata.schema.to_arrow_schema() if columns is None or field.name in columns]
    if not any("string" in str(field.type) for field in chosen):
        return parquet.read_table(path, columns=columns, partitioning=None)
    size = path.stat().st_size
    rows = max(1, min(1024, _BYTES_AT_ONCE // max(1, _longest_text(metadata, sizes))))
    batches, held = [], 0
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            batch.validate(full=True)  # bytes that are no text end in an error of Arrow's own wherever they are used
            batches.append(batch)
            held += batch.nbytes
            if held > _MOST_TEXT_BYTES + _BYTES_PER_BYTE * size:
                raise DataError(f"{path}: unpacks to more than {held} bytes from {size}; no recording is like that")
        schema = file.schema_arrow if columns is None else arrow.schema(chosen)
    table = arrow.Table.from_batches(batches) if batches else schema.empty_table()
    if table.num_rows != metadata.num_rows:  # Arrow ends quietly where a damaged column ends
        raise ValueError(f"{table.num_rows} of {metadata.num_rows} rows can be read")
    return table


def _longest_text(metadata: Any, sizes: list[list[ColumnSize]]) -> int:
    """No text is longer, in bytes, than all that a group of rows stores of its column; pictures are no texts."""
    texts = [n for n in range(metadata.num_columns) if metadata.schema.column(n).logical_type.type == "STRING"]
    return max((group[n].num_bytes for group in sizes for n in texts if n < len(group)), default=0)


def _refuse_bomb(path: Path, sizes: list[list[ColumnSize]]) -> None:
    """A few bytes may stand for any number of equal values: so many take the memory of what is not there."""
    values = sum(column.num_values for group in sizes for column in group)
    if values > _FEW_VALUES + _VALUES_PER_BYTE * path.stat().st_size:
        raise DataError(f"{path}: {values} values in a file of {path.stat().st_size} bytes; no recording is like that")


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """One mapping a line; only a newline ends a line, since an instruction may hold any other separator."""
    if not path.is_file():
        raise DataError(f"{path}: no such file; a v2.1 dataset has one")
    return list(read_json_objects(path, "fetch the dataset again"))
