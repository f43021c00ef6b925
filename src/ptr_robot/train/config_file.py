"""``train_config.json``: the settings of a run, written in full and read back by ``--config_path`` or ``--resume``."""

from __future__ import annotations

import json
from pathlib import Path

from ptr_robot.data.cache import whole_file
from ptr_robot.errors import require
from ptr_robot.train.config import TrainConfig

CONFIG_FILE = "train_config.json"


def write_config(config: TrainConfig, folder: Path) -> Path:
    """Write the settings into ``folder``, whole or not at all."""
    draccus = require("draccus", "lerobot")
    text = json.dumps(draccus.encode(config), indent=2) + "\n"
    with whole_file(folder / CONFIG_FILE) as file:
        file.write(text.encode())
    return folder / CONFIG_FILE
