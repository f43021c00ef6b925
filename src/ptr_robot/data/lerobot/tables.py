"""Reads the table columns of episodes as NumPy arrays, each file once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import DatasetIndex, EpisodeRecord
from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.errors import DataError, require

CELLS_AT_A_TIME = 16

Columns = dict[str, NDArray[Any]]  # by key: (frames,) for bookkeeping and single values, (frames, D) for vectors


def read_episode(episode: EpisodeRecord, columns: Sequence[str]) -> Columns:
    """Some columns of one episode; to go through many episodes, ``iterate_episodes`` opens each file once."""
    table = read_parquet(episode.table, list(columns))
    return slice_episode(table, episode, columns)


def iterate_episodes(
    index: DatasetIndex, columns: Sequence[str], episodes: Sequence[EpisodeRecord] | None = None
) -> Iterator[tuple[EpisodeRecord, Columns]]:
    """Some columns of every episode in turn; holds one table file at a time, whatever the dataset's size."""
    chosen = index.episodes if episodes is None else episodes
    for path, group in groupby(chosen, key=lambda episode: episode.table):
        table = read_parquet(path, list(columns))
        for episode in group:
            yield episode, slice_episode(table, episode, columns)


def iterate_cells(episode: EpisodeRecord, key: str) -> Iterator[Any]:
    """The cells of one column of an episode as Python values, from the row groups that hold it and no others.

    For columns of large cells, such as pictures: a few are in memory at a time, however many episodes share the file.
    """
    parquet = require("pyarrow.parquet", "lerobot")
    try:
        with parquet.ParquetFile(episode.table) as file:
            groups, first = _groups_of(file.metadata, episode)
            for batch in file.iter_batches(CELLS_AT_A_TIME, row_groups=groups, columns=[key]):
                start, end = max(0, episode.first_row - first), episode.first_row + episode.length - first
                yield from batch.column(0).slice(start, max(0, end - start)).to_pylist()
                first += batch.num_rows
    except (OSError, ValueError, IndexError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{episode.table}: episode {episode.episode_index}, {key!r}: cannot be read ({reason})"
        ) from error


def _groups_of(metadata: Any, episode: EpisodeRecord) -> tuple[list[int], int]:
    """The row groups that hold rows of the episode, and the first row of the first of them."""
    ends = np.cumsum([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)])
    starts = np.concatenate([[0], ends[:-1]])
    groups = np.flatnonzero((ends > episode.first_row) & (starts < episode.first_row + episode.length))
    return groups.tolist(), int(starts[groups[0]])


def slice_episode(table: Any, episode: EpisodeRecord, columns: Sequence[str]) -> Columns:
    """Some columns of one episode of a table file that was read already."""
    rows = table.slice(episode.first_row, episode.length)
    where = f"{episode.table}: episode {episode.episode_index}"
    if rows.num_rows != episode.length:
        raise DataError(
            f"{where} has {rows.num_rows} rows, its metadata says {episode.length}; "
            "leave it out with --dataset.skip_bad_episodes=true"
        )
    return {key: read_column(rows, key, where) for key in columns}


def read_column(rows: Any, key: str, where: str) -> NDArray[Any]:
    """One column of some rows; a complaint starts with ``where``."""
    if key not in rows.column_names:
        raise DataError(f"{where} has no column {key!r}, which meta/info.json names; fetch the dataset again")
    try:
        return column_to_numpy(rows.column(key))
    except DataError as error:
        raise DataError(f"{where}, {key!r}, {error}") from error


def column_to_numpy(column: Any) -> NDArray[Any]:
    """An Arrow column of numbers or of equally long lists of numbers; null becomes NaN, anything else is an error."""
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_fixed_size_list(array.type) or pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return _lists_to_numpy(array)
    if array.null_count and (pa.types.is_boolean(array.type) or pa.types.is_null(array.type)):
        array = array.cast(pa.float32())
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "biuf":
        raise DataError(f"every frame: its values are of the type {array.type}, not numbers")
    return values


def _lists_to_numpy(array: Any) -> NDArray[Any]:
    """(rows, width, ...); a null row becomes NaN, and a row of another width is named by its place."""
    import pyarrow.compute as pc

    widths = pc.list_value_length(array).to_numpy(zero_copy_only=False).astype(np.float64)  # (rows,) NaN where null
    is_present = ~np.isnan(widths)
    width = int(np.bincount(widths[is_present].astype(np.int64)).argmax()) if is_present.any() else 1
    odd = np.flatnonzero(is_present & (widths != width))
    if len(odd):
        raise DataError(f"frame {odd[0]}: it has {widths[odd[0]]:.0f} values, the other frames {width}")
    inner = column_to_numpy(array.drop_null().flatten())
    present = inner.reshape(int(is_present.sum()), width, *inner.shape[1:])
    if is_present.all():
        return present
    rows = np.full((len(array), *present.shape[1:]), np.nan, dtype=np.result_type(present.dtype, np.float32))
    rows[is_present] = present
    return rows
