"""What a dataset says of its episodes beyond LeRobot's own fields: who recorded them, when, where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ptr_robot.data.lerobot.metadata import read_info, read_json_lines, read_parquet
from ptr_robot.errors import require

MOST_NAMES = 20
MOST_GROUPS = 100  # a text that nearly every episode has of its own groups nothing


def read_labels(root: Path) -> dict[str, dict[int, str]]:
    """Texts by name and episode, such as ``operator`` or ``session``, of those that tell several groups apart."""
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for row in _rows(root, read_info(root)["codebase_version"]):
        for name, value in row.items():
            if isinstance(value, str) and value and name.strip() and (name in found or len(found) < MOST_NAMES):
                found[name][int(row["episode_index"])] = value
    return {name: texts for name, texts in found.items() if 1 < len(set(texts.values())) <= MOST_GROUPS}


def _rows(root: Path, version: str) -> Iterator[Mapping[str, Any]]:
    if version == "v2.1":
        yield from read_json_lines(root / "meta" / "episodes.jsonl")
        return
    for file in sorted((root / "meta" / "episodes").glob("*/*.parquet")):
        schema = require("pyarrow.parquet", "lerobot").read_schema(file)
        texts = [field.name for field in schema if str(field.type) in ("string", "large_string")]
        if texts:
            yield from read_parquet(file, ["episode_index", *texts]).to_pylist()
