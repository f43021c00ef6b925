"""``train_config.json``: the settings of a run, written in full and read back by ``--config_path`` or ``--resume``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptr_robot.errors import require
from ptr_robot.files import atomic_file
from ptr_robot.train.config import TrainConfig

CONFIG_FILE = "train_config.json"


def write_config(config: TrainConfig, folder: Path) -> Path:
    """Write the settings into ``folder``, atomically."""
    draccus = require("draccus", "lerobot")
    text = json.dumps(draccus.encode(config), indent=2) + "\n"
    with atomic_file(folder / CONFIG_FILE) as file:
        file.write(text.encode())
    return folder / CONFIG_FILE


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with changes over them, level by level."""
    result = dict(base)
    for name, value in changes.items():
        below = base.get(name)
        result[name] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def flattened(values: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= flattened(value, f"{place}{name}.") if isinstance(value, Mapping) else {place + name: value}
    return flat
