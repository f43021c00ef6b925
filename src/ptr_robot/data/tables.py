"""Reads the table columns of episodes as NumPy arrays, each file once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from numpy.typing import NDArray

from ptr_robot.data.metadata import read_parquet
from ptr_robot.data.records import DatasetIndex, EpisodeRecord
from ptr_robot.errors import DataError

Columns = dict[str, NDArray[Any]]  # by key: (frames,) for bookkeeping and single values, (frames, D) for vectors


def read_episode(episode: EpisodeRecord, columns: Sequence[str]) -> Columns:
    """Some columns of one episode; to go through many episodes, ``iterate_episodes`` opens each file once."""
    table = read_parquet(episode.table, list(columns))
    return _slice_episode(table, episode, columns)


def iterate_episodes(
    index: DatasetIndex, columns: Sequence[str], episodes: Sequence[EpisodeRecord] | None = None
) -> Iterator[tuple[EpisodeRecord, Columns]]:
    """Some columns of every episode in turn; holds one table file at a time, whatever the dataset's size."""
    chosen = index.episodes if episodes is None else episodes
    for path, group in groupby(chosen, key=lambda episode: episode.table):
        table = read_parquet(path, list(columns))
        for episode in group:
            yield episode, _slice_episode(table, episode, columns)


def _slice_episode(table: Any, episode: EpisodeRecord, columns: Sequence[str]) -> Columns:
    rows = table.slice(episode.first_row, episode.length)
    if rows.num_rows != episode.length:
        raise DataError(
            f"{episode.table}: episode {episode.episode_index} has {rows.num_rows} rows, "
            f"its metadata says {episode.length}; leave it out with skip_bad_episodes"
        )
    return {key: column_to_numpy(rows.column(key)) for key in columns}


def column_to_numpy(column: Any) -> NDArray[Any]:
    """An Arrow column of numbers or of equally long lists of numbers; null becomes NaN."""
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_fixed_size_list(array.type) or pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        inner = column_to_numpy(array.flatten())
        return inner.reshape(len(array), -1, *inner.shape[1:])
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values
