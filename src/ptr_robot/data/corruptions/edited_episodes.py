"""The episodes of a dataset on their way through: rows edited, metadata and statistics kept in line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ptr_robot.data.corruptions import edited_statistics
from ptr_robot.data.corruptions.base_dataset import SourceDataset
from ptr_robot.data.corruptions.edited_rows import EditContext, edit_rows
from ptr_robot.data.corruptions.plan import EpisodeEdit, PlannedEpisode
from ptr_robot.data.lerobot.contents import DatasetIndex, EpisodeRecord, VideoSpan
from ptr_robot.data.lerobot.metadata import read_features, read_parquet, video_file
from ptr_robot.data.lerobot.tables import read_column
from ptr_robot.errors import DataError

Progress = Callable[[int, int], None]  # episodes done, episodes in all


@dataclass
class EpisodeTable:
    """The rows of ``meta/episodes``, by file and by episode; edited in place, then written."""

    schemas: dict[Path, pa.Schema]
    rows_by_file: dict[Path, list[dict[str, Any]]]
    changed_features: set[str] = field(default_factory=set)

    @staticmethod
    def read(source: SourceDataset, index: DatasetIndex) -> EpisodeTable:
        """Read every file of the episode table; the instructions are those of ``index``, which training uses."""
        tables = {path.relative_to(source.root): read_parquet(path) for path in source.episode_files}
        episodes = EpisodeTable(
            schemas={path: table.schema for path, table in tables.items()},
            rows_by_file={path: table.to_pylist() for path, table in tables.items()},
        )
        by_index = episodes.by_index
        for record in index.episodes:
            by_index[record.episode_index]["tasks"] = list(record.tasks)
        return episodes

    @property
    def by_index(self) -> dict[int, dict[str, Any]]:
        """Every row by its episode's index, in order."""
        rows = [row for rows in self.rows_by_file.values() for row in rows]
        return {row["episode_index"]: row for row in sorted(rows, key=lambda row: row["episode_index"])}

    def planned(self) -> list[PlannedEpisode]:
        """What the plan needs to know about each episode."""
        return [PlannedEpisode(index, row["length"], tuple(row["tasks"])) for index, row in self.by_index.items()]

    def write(self, root: Path) -> None:
        """Write every file under ``root``, with the schema it had."""
        for path, rows in self.rows_by_file.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            try:
                table = pa.Table.from_pylist(rows, schema=self.schemas[path])
            except pa.ArrowException as error:
                reason = " ".join(str(error).split())
                raise DataError(
                    f"{path}: a column has another type than LeRobot gives it ({reason}); fetch the dataset again"
                ) from error
            pq.write_table(table, root / path)


@dataclass(frozen=True)
class _EpisodeRows:
    """The rows of one episode in the source, and where they lie."""

    index: int
    file: Path
    first_row: int
    rows: pa.Table


def write_data(
    source: SourceDataset,
    root: Path,
    episodes: EpisodeTable,
    edits: dict[int, EpisodeEdit],
    context: EditContext,
    on_episode: Progress | None,
) -> int:
    """Write every data file with its episodes edited, update their metadata, and count the frames."""
    by_index = episodes.by_index
    done, first_index = 0, 0
    for path in source.data_files:
        target = root / path.relative_to(source.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        table = read_parquet(path)
        with pq.ParquetWriter(target, table.schema) as writer:
            for episode in _split_by_episode(table, by_index, path):
                row, edit = by_index[episode.index], edits[episode.index]
                edited = edit_rows(episode.rows, edit, context, first_index)
                writer.write_table(edited)
                _update_place(row, edited, path, first_index)
                _update_content(row, edit, source)
                episodes.changed_features |= _update_stats(row, episode, edited, source)
                first_index += len(edited)
                done += 1
                if on_episode is not None:
                    on_episode(done, len(by_index))
    if done != len(by_index):
        raise DataError(f"{source.root / 'data'}: {done} of the {len(by_index)} episodes have rows here")
    return first_index


def _split_by_episode(table: pa.Table, by_index: dict[int, dict[str, Any]], path: Path) -> Iterator[_EpisodeRows]:
    """The rows of each episode; a file that lost some must not pass as one with short episodes."""
    numbers = table["episode_index"].to_numpy()
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    for start, stop in zip(starts, [*starts[1:], len(numbers)], strict=True):
        index = int(numbers[start])
        listed = by_index.get(index, {}).get("length")
        if listed != stop - start:
            raise DataError(
                f"{path}: episode {index} has {stop - start} rows, its metadata says {listed}; fetch or record it again"
            )
        yield _EpisodeRows(index, path, start, table.slice(start, stop - start))


def _update_place(row: dict[str, Any], edited: pa.Table, path: Path, first_index: int) -> None:
    match = re.fullmatch(r"chunk-(\d+)/file-(\d+)\.parquet", "/".join(path.parts[-2:]))
    if match is None:
        raise DataError(f"{path}: a v3.0 data file is called data/chunk-NNN/file-NNN.parquet")
    row["data/chunk_index"], row["data/file_index"] = int(match[1]), int(match[2])
    row["length"] = len(edited)
    row["dataset_from_index"], row["dataset_to_index"] = first_index, first_index + len(edited)


def _update_content(row: dict[str, Any], edit: EpisodeEdit, source: SourceDataset) -> None:
    if edit.instruction is not None:
        row["tasks"] = [edit.instruction]
    if edit.kept_frames is not None:
        for key in source.keys_of("video"):
            start = float(row[f"videos/{key}/from_timestamp"])
            row[f"videos/{key}/to_timestamp"] = start + edit.kept_frames / source.info["fps"]


def _update_stats(row: dict[str, Any], episode: _EpisodeRows, edited: pa.Table, source: SourceDataset) -> set[str]:
    """Recompute the statistics of the features whose values differ, and name those features."""
    fresh: edited_statistics.EpisodeStats = {}
    where = f"{episode.file}: episode {episode.index}"
    for key, feature in read_features(source.info).items():
        if f"stats/{key}/mean" not in row:
            continue
        if feature.is_camera:
            if len(edited) != len(episode.rows):
                record = _as_record(row, episode, source)
                fresh[key] = edited_statistics.picture_stats(record, feature, source.info["fps"])
        else:
            values = read_column(edited, key, where)
            if not np.array_equal(read_column(episode.rows, key, where), values, equal_nan=True):
                fresh[key] = edited_statistics.numeric_stats(values, f"{where}, {key!r}")
    edited_statistics.write_episode_stats(row, fresh)
    return set(fresh)


def _as_record(row: dict[str, Any], episode: _EpisodeRows, source: SourceDataset) -> EpisodeRecord:
    """The edited episode as the decoder knows it; its pictures are still where the source has them."""
    videos = {
        key: VideoSpan(video_file(source.root, source.info, row, key), float(row[f"videos/{key}/from_timestamp"]))
        for key in source.keys_of("video")
    }
    return EpisodeRecord(
        episode_index=episode.index,
        length=row["length"],
        tasks=tuple(row["tasks"]),
        first_index=row["dataset_from_index"],
        table=episode.file,
        first_row=episode.first_row,
        videos=videos,
    )
