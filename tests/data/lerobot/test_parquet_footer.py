"""Sizes from a footer: those that Arrow reads where it is sound, and never the end of the process where it is not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.data.lerobot.parquet_footer import column_sizes
from ptr_robot.errors import DataError

NUM_DAMAGED = 400


def make_file(path: Path, **settings: object) -> Path:
    rows = 36
    columns = {
        "index": list(range(rows)),
        "state": [[1.0, 2.0, float(row)] for row in range(rows)],
        "done": [row == rows - 1 for row in range(rows)],
        "task": ["pick", "place"] * (rows // 2),
    }
    pq.write_table(pa.table(columns), path, **settings)
    return path


@pytest.mark.parametrize(
    "settings",
    [{}, {"row_group_size": 7}, {"compression": "none", "use_dictionary": False}, {"write_statistics": False}],
)
def test_sizes_are_those_that_arrow_reads(settings, tmp_path) -> None:
    path = make_file(tmp_path / "sound.parquet", **settings)
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    expected = [
        [(group.column(n).num_values, group.column(n).total_uncompressed_size) for n in range(group.num_columns)]
        for group in groups
    ]
    assert [[(one.num_values, one.num_bytes) for one in group] for group in column_sizes(path)] == expected


def test_more_columns_than_a_short_list_holds(tmp_path) -> None:
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"column {number}": [number] for number in range(40)}), path)
    assert [len(group) for group in column_sizes(path)] == [40]


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"PAR1" + b"\x49" * 40 + b"\x28\0\0\0PAR1"]
)
def test_what_is_no_footer_is_refused(content, tmp_path) -> None:
    path = tmp_path / "broken.parquet"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"footer|short"):
        column_sizes(path)


def test_a_damaged_footer_never_ends_the_process(tmp_path) -> None:
    """Arrow's own way to these numbers aborts on some of them, which nothing can catch: hence a process of its own."""
    path = make_file(tmp_path / "sound.parquet")
    content = path.read_bytes()
    first = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    generator = np.random.default_rng(0)
    child = os.fork()
    if not child:
        for _ in range(NUM_DAMAGED):
            damaged = bytearray(content)
            for place in generator.integers(first, len(content) - 8, generator.integers(1, 4)):
                damaged[place] = generator.integers(256)
            path.write_bytes(damaged)
            try:
                read_parquet(path)
            except DataError:
                continue
            except BaseException:
                os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_damaged_table_never_loses_rows_in_silence(tmp_path) -> None:
    """Read in batches, Arrow ends where a damaged column ends."""
    sound = pa.table({"episode_index": [0, 1], "tasks": [["push"], ["lift"]], "length": [9, 8], "q": [[0.1], [0.2, 3]]})
    file, refused = tmp_path / "table.parquet", 0
    pq.write_table(sound, file)
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + b"\x00" + content[place + 1 :])
        try:
            assert read_parquet(file).num_rows == 2
        except DataError as error:
            refused += "rows can be read" in str(error)
    assert refused > 0
