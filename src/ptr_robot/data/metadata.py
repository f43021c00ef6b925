"""Reads the metadata folder of a LeRobot dataset; the two versions differ here and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptr_robot.data.records import EpisodeRecord, Feature, VideoSpan
from ptr_robot.errors import DataError, require

SUPPORTED_VERSIONS = ("v2.1", "v3.0")


def read_info(root: Path) -> dict[str, Any]:
    """``meta/info.json``, with the fields that everything else depends on checked."""
    path = root / "meta" / "info.json"
    if not path.is_file():
        raise DataError(f"{path}: no such file; a LeRobot dataset has one (is this its own folder?)")
    try:
        info: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error}); fetch the dataset again") from error
    version = info.get("codebase_version")
    if version not in SUPPORTED_VERSIONS:
        supported = " and ".join(SUPPORTED_VERSIONS)
        raise DataError(f"{path}: codebase_version is {version!r}; this package reads {supported}")
    for field in ("fps", "features", "data_path"):
        if field not in info:
            raise DataError(f"{path}: the field {field!r} is missing; fetch the dataset again")
    if not isinstance(info["fps"], (int, float)) or not info["fps"] > 0:
        raise DataError(f"{path}: fps is {info['fps']!r}; it must be a number above 0")
    return info


def read_features(info: Mapping[str, Any]) -> dict[str, Feature]:
    """The features by key, in the dataset's own order."""
    return {
        key: Feature(key, entry["dtype"], tuple(entry["shape"]), _flat_names(entry.get("names")))
        for key, entry in info["features"].items()
    }


def _flat_names(names: Any) -> tuple[str, ...]:
    """Dimension names from the three spellings in use: a list, a list in a list, lists in a mapping."""
    if isinstance(names, str):
        return (names,)
    if isinstance(names, Mapping):
        names = list(names.values())
    if isinstance(names, (list, tuple)):
        return tuple(flat for name in names for flat in _flat_names(name))
    return ()


def read_tasks(root: Path, version: str) -> dict[int, str]:
    """The instructions by task index."""
    if version == "v2.1":
        return {int(line["task_index"]): str(line["task"]) for line in _read_jsonl(root / "meta" / "tasks.jsonl")}
    table = read_parquet(root / "meta" / "tasks.parquet").to_pandas()
    texts = table["task"] if "task" in table.columns else table.index
    return {int(index): str(text) for index, text in zip(table["task_index"], texts, strict=True)}


def read_episodes(root: Path, info: Mapping[str, Any]) -> list[EpisodeRecord]:
    """Every episode that the metadata names, in order, whether or not its files are sound."""
    cameras = [key for key, entry in info["features"].items() if entry["dtype"] == "video"]
    reader = _episodes_v21 if info["codebase_version"] == "v2.1" else _episodes_v30
    episodes = sorted(reader(root, info, cameras), key=lambda record: record.episode_index)
    if not episodes:
        raise DataError(f"{root}: the metadata names no episode; record or fetch the dataset again")
    return episodes


def _episodes_v21(root: Path, info: Mapping[str, Any], cameras: list[str]) -> list[EpisodeRecord]:
    records: list[EpisodeRecord] = []
    first_index = 0
    lines = _read_jsonl(root / "meta" / "episodes.jsonl")
    for line in sorted(lines, key=lambda line: int(line["episode_index"])):
        number, length = int(line["episode_index"]), int(line["length"])
        place = {"episode_chunk": number // int(info.get("chunks_size", 1000)), "episode_index": number}
        videos = {key: VideoSpan(root / info["video_path"].format(video_key=key, **place)) for key in cameras}
        table = root / info["data_path"].format(**place)
        records.append(EpisodeRecord(number, length, tuple(line["tasks"]), first_index, table, 0, videos))
        first_index += length
    return records


def _episodes_v30(root: Path, info: Mapping[str, Any], cameras: list[str]) -> list[EpisodeRecord]:
    folder = root / "meta" / "episodes"
    files = sorted(folder.glob("*/*.parquet"))
    if not files:
        raise DataError(f"{folder}: no episode metadata here; fetch the dataset again")
    rows = [row for file in files for row in _episode_rows(file)]
    first_of_file: dict[Path, int] = {}
    tables = [root / info["data_path"].format(**_place(row, "data")) for row in rows]
    for row, table in zip(rows, tables, strict=True):
        first_of_file[table] = min(first_of_file.get(table, row["dataset_from_index"]), row["dataset_from_index"])
    return [
        EpisodeRecord(
            episode_index=int(row["episode_index"]),
            length=int(row["length"]),
            tasks=tuple(row["tasks"]),
            first_index=int(row["dataset_from_index"]),
            table=table,
            first_row=int(row["dataset_from_index"]) - int(first_of_file[table]),
            videos={key: _span_v30(root, info, row, key) for key in cameras},
        )
        for row, table in zip(rows, tables, strict=True)
    ]


def _episode_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of one episode file without its statistics, which are many columns and not needed here."""
    parquet = require("pyarrow.parquet", "lerobot")
    try:
        names = [name for name in parquet.read_schema(file).names if not name.startswith("stats/")]
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: not a readable parquet file ({error}); fetch the dataset again") from error
    rows: list[dict[str, Any]] = read_parquet(file, names).to_pylist()
    return rows


def _place(row: Mapping[str, Any], prefix: str) -> dict[str, int]:
    return {"chunk_index": row[f"{prefix}/chunk_index"], "file_index": row[f"{prefix}/file_index"]}


def _span_v30(root: Path, info: Mapping[str, Any], row: Mapping[str, Any], key: str) -> VideoSpan:
    path = root / info["video_path"].format(video_key=key, **_place(row, f"videos/{key}"))
    return VideoSpan(path, row[f"videos/{key}/from_timestamp"], row[f"videos/{key}/to_timestamp"])


def read_parquet(path: Path, columns: list[str] | None = None) -> Any:
    """A whole parquet file as an Arrow table; a missing or truncated one is one clear line."""
    parquet = require("pyarrow.parquet", "lerobot")
    if not path.is_file():
        raise DataError(f"{path}: no such file; the metadata names it, so the dataset is incomplete")
    try:
        return parquet.read_table(path, columns=columns, partitioning=None)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not a readable parquet file ({reason}); fetch it again") from error


def _read_jsonl(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; a v2.1 dataset has one")
    try:
        return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON Lines ({error}); fetch the dataset again") from error
