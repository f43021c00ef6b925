"""What a dataset says of its episodes beyond LeRobot's own fields."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from ptr_robot.data.lerobot.labels import MOST_GROUPS, MOST_NAMES, read_labels


def write_v21(root: Path, rows: list[dict]) -> Path:
    (root / "meta").mkdir(parents=True)
    info = {"codebase_version": "v2.1", "fps": 10, "features": {}, "data_path": "data/{episode_index}.parquet"}
    (root / "meta" / "info.json").write_text(json.dumps(info))
    (root / "meta" / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root


def write_v30(root: Path, rows: list[dict]) -> Path:
    folder = root / "meta" / "episodes" / "chunk-000"
    folder.mkdir(parents=True)
    info = {"codebase_version": "v3.0", "fps": 10, "features": {}, "data_path": "data/{episode_index}.parquet"}
    (root / "meta" / "info.json").write_text(json.dumps(info))
    parquet.write_table(pa.Table.from_pylist(rows), folder / "file-000.parquet")
    return root


def episodes(count: int, **labels: object) -> list[dict]:
    return [
        {"episode_index": number, "tasks": ["push"], "length": 5}
        | {name: value(number) if callable(value) else value for name, value in labels.items()}
        for number in range(count)
    ]


def test_texts_that_group_episodes_are_read_from_both_versions(tmp_path):
    rows = episodes(4, operator=lambda number: "Ada" if number < 2 else "Grace", site="lab", temperature=20.5)
    expected = {"operator": {0: "Ada", 1: "Ada", 2: "Grace", 3: "Grace"}}  # one site tells nothing apart
    assert read_labels(write_v21(tmp_path / "old", rows)) == expected
    assert read_labels(write_v30(tmp_path / "new", rows)) == expected


def test_a_text_of_each_episode_s_own_is_no_group(tmp_path):
    rows = episodes(MOST_GROUPS + 1, uuid=lambda number: f"id {number}")
    assert read_labels(write_v21(tmp_path, rows)) == {}


def test_an_episode_without_the_text_is_left_out(tmp_path):
    rows = episodes(3, session=lambda number: [None, "monday", "tuesday"][number])
    assert read_labels(write_v30(tmp_path, rows)) == {"session": {1: "monday", 2: "tuesday"}}


def test_fields_without_a_name_and_more_fields_than_anybody_reads_are_left_out(tmp_path):
    many = {f"field {number}": (lambda place: "ab"[place % 2]) for number in range(2 * MOST_NAMES)}
    rows = episodes(4, **{"": lambda number: "ab"[number % 2]}, **many)
    found = read_labels(write_v21(tmp_path, rows))
    assert "" not in found
    assert len(found) == MOST_NAMES
