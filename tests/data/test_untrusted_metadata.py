"""Metadata and tables whose numbers are none, or stand for two things: one line, instead of a guess."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ptr_robot.data.lerobot import compat
from ptr_robot.data.lerobot.frames import decode_episode
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.lerobot.metadata import read_info, read_parquet
from ptr_robot.data.lerobot.videos import open_video
from ptr_robot.errors import DataError

from .conftest import WRIST
from .v21_writer import video_path

TABLE = "data/chunk-000/file-000.parquet"


def rewrite_line(root: Path, name: str, **changes) -> None:
    """The first line of a file of v2.1's metadata, changed."""
    first, *rest = (root / "meta" / name).read_text().splitlines()
    lines = [json.dumps(json.loads(first) | changes), *rest]
    (root / "meta" / name).write_text("".join(f"{line}\n" for line in lines))


def rewrite_column(file: Path, name: str, change: Callable[[int], pa.Array]) -> None:
    table = pq.read_table(file)
    column = change(len(table))
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, column), file)


def complaint(root: Path) -> str:
    with pytest.raises(DataError) as caught:
        open_index(root)
    return str(caught.value)


@pytest.mark.parametrize("value", [10**400, 1e-320, 1e308, -1, 0, True, "10", float("nan"), None])
@pytest.mark.parametrize("field", ["fps", "chunks_size"])
def test_rates_and_sizes_of_folders_are_numbers_in_bounds(own_v21, field, value):
    file = own_v21 / "meta/info.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {field: value}))
    assert "info.json: " in complaint(own_v21)


@pytest.mark.parametrize("value", [8.5, True, "23", None, 10**30, float("nan")])
@pytest.mark.parametrize("field", ["episode_index", "length"])
def test_numbers_of_episodes_are_whole(own_v21, field, value):
    rewrite_line(own_v21, "episodes.jsonl", **{field: value})
    assert "episodes.jsonl: " in complaint(own_v21)


@pytest.mark.parametrize("changes", [{"task": None}, {"task": 3}, {"task_index": 0.9}, {"task_index": 1}])
def test_an_instruction_is_a_text_with_a_number_of_its_own(own_v21, changes):
    rewrite_line(own_v21, "tasks.jsonl", **changes)
    assert "tasks.jsonl: " in complaint(own_v21)


@pytest.mark.parametrize("shape", [[2.5], ["4"], [True, 4], [10**400], [None]])
def test_shapes_are_whole_numbers(own_v21, shape):
    file = own_v21 / "meta/info.json"
    info = json.loads(file.read_text())
    info["features"]["action"]["shape"] = shape
    file.write_text(json.dumps(info))
    assert "info.json: " in complaint(own_v21)


@pytest.mark.parametrize(
    "cells",
    [
        lambda rows: pa.array([float("nan")] * rows),
        lambda rows: pa.array([float("inf")] * rows),
        lambda rows: pa.array([0.5] * rows),
        lambda rows: pa.array([[0, 0]] * rows),
        lambda rows: pa.array([None] * rows, pa.int64()),
        lambda rows: pa.array([2**64 - 1] * rows, pa.uint64()),
        lambda rows: pa.array(["0"] * rows),
    ],
    ids=["nan", "inf", "half", "lists", "empty", "huge", "texts"],
)
@pytest.mark.parametrize("column", ["episode_index", "index"])
def test_the_numbers_of_rows_are_whole(own_v30, column, cells):
    rewrite_column(own_v30 / TABLE, column, cells)
    assert str(own_v30 / TABLE) in complaint(own_v30)


def test_rows_of_an_episode_in_two_files_are_not_chosen_between(own_v30):
    shutil.copy(own_v30 / TABLE, own_v30 / "data/chunk-000/file-001.parquet")
    assert "episode 0: " in complaint(own_v30)
    assert "remove one of them" in complaint(own_v30)


def test_actions_nested_otherwise_than_the_metadata_say_are_refused(own_v30):
    rewrite_column(own_v30 / TABLE, "action", lambda rows: pa.array([[[0.0, 1.0], [2.0, 3.0]]] * rows))
    assert "has the shape (2, 2) in 'action', meta/info.json says (4,)" in complaint(own_v30)


def test_a_few_bytes_that_stand_for_many_values_are_not_unpacked(tmp_path):
    file = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"index": pa.array(np.zeros(20_000_000, dtype="i1"))}), file, compression="zstd")
    assert file.stat().st_size < 200_000
    with pytest.raises(DataError, match=r"bomb\.parquet: 20000000 values in a file of"):
        read_parquet(file)


@pytest.mark.parametrize("name", ["meta/episodes/chunk-000/file-001.parquet", "meta/extra.json", "videos/pipe"])
def test_a_pipe_in_a_dataset_keeps_nobody_waiting(own_v30, name):
    os.mkfifo(own_v30 / name)
    assert f"{name}: neither a file nor a folder" in complaint(own_v30)


def test_a_picture_too_large_to_unpack_is_one_line(recorded, tmp_path):
    """Its header alone says 60,000 by 60,000."""
    root = Path(shutil.copytree(recorded, tmp_path / "arm"))
    content = io.BytesIO()
    Image.new("RGB", (1, 1)).save(content, "BMP")
    header = bytearray(content.getvalue())
    header[18:26] = (60_000).to_bytes(4, "little") * 2
    picture = {"bytes": bytes(header), "path": None}
    rewrite_column(root / TABLE, WRIST, lambda rows: pa.array([picture] * rows))
    index = open_index(root)
    with pytest.raises(DataError, match=r"frame 0: not a readable picture \(.*exceeds limit"):
        next(iter(decode_episode(index.episodes[0], index.features[WRIST], index.fps)))


def test_half_a_surrogate_pair_survives_a_copy_of_the_metadata(own_v30):
    info = read_info(own_v30)
    info["features"]["action"]["names"] = ["\ud800", "é", "c", "d"]
    compat.write_info(info, own_v30)
    assert read_info(own_v30)["features"]["action"]["names"] == ["\ud800", "é", "c", "d"]


def test_the_title_of_a_video_may_be_in_any_encoding(own_v21):
    """FFmpeg hands on the bytes of the brand; decoded strictly, they would be an error of their own."""
    path = video_path(own_v21, 0)
    content = path.read_bytes()
    assert content[8:12] == b"isom"
    path.write_bytes(content.replace(b"isomiso2", b"\xa0somiso2", 1).replace(b"ftypisom", b"ftyp\xa0som", 1))
    with open_video(path) as container:
        assert container.streams.video[0].frames == 23


@pytest.mark.parametrize("kind", ["texts", "lists"])
def test_one_long_text_in_every_row_is_refused_before_it_fills_the_memory(tmp_path, kind):
    """Stored once, it would be more than a hundred megabytes in memory."""
    text = "pick it up " * 1000
    values = [text] * 10_000 if kind == "texts" else [[text]] * 10_000
    file = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"episode_index": range(10_000), "tasks": values}), file)
    assert file.stat().st_size < 100_000
    with pytest.raises(DataError, match=r"texts\.parquet: unpacks to more than \d+ bytes from \d+"):
        read_parquet(file)


def test_ordinary_texts_are_read_as_they_are(tmp_path):
    table = pa.table({"episode_index": [0, 1], "tasks": [["open"], ["shut", "open"]], "note": ["a", None]})
    pq.write_table(table, tmp_path / "few.parquet")
    assert read_parquet(tmp_path / "few.parquet").to_pylist() == table.to_pylist()
    assert read_parquet(tmp_path / "few.parquet", ["tasks"]).to_pylist() == table.select(["tasks"]).to_pylist()
    pictures = table.append_column("image", pa.array([{"bytes": b"x" * 10_000, "path": "a.png"}] * 2))
    pq.write_table(pictures, tmp_path / "pictures.parquet")
    assert read_parquet(tmp_path / "pictures.parquet").to_pylist() == pictures.to_pylist()
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    assert read_parquet(tmp_path / "none.parquet").num_rows == 0


def test_types_that_arrow_does_not_know_are_one_line(tmp_path):
    """The description of the types that Arrow keeps in the footer, letter by letter."""
    file = tmp_path / "table.parquet"
    pq.write_table(pa.table({"index": [1, 2]}), file)
    sound = file.read_bytes()
    first = sound.index(b"ARROW:schema")
    complaints = []
    for place in range(first, len(sound) - 8, 3):
        file.write_bytes(sound[:place] + b"T" + sound[place + 1 :])
        try:
            read_parquet(file)
        except DataError as error:
            complaints.append(str(error))
    assert complaints
    assert not any("\n" in complaint for complaint in complaints)
