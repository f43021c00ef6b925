"""What moved between the LeRobot versions that one source serves: 0.4 below Python 3.12, 0.6 from there on."""

from __future__ import annotations

import functools
import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from ptr_robot.errors import MissingExtraError, require


@functools.cache
def lerobot_version() -> tuple[int, int]:
    """Major and minor number of the installed LeRobot."""
    try:
        major, minor, *_ = importlib.metadata.version("lerobot").split(".")
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError(
            "lerobot is not installed; install it with: pip install 'ptr-robot[lerobot]'"
        ) from error
    return int(major), int(minor)


def is_lerobot06() -> bool:
    """Whether LeRobot is laid out as from 0.6 on."""
    return lerobot_version() >= (0, 6)


def load_stats(root: Path) -> dict[str, dict[str, NDArray[Any]]]:
    """The statistics of a v3.0 dataset by feature; none where it has no such file."""
    stats: dict[str, dict[str, NDArray[Any]]] | None = _files().load_stats(root)
    return stats or {}


def write_stats(stats: Mapping[str, Mapping[str, NDArray[Any]]], root: Path) -> None:
    """Write meta/stats.json."""
    _files().write_stats(stats, root)


def write_info(info: Mapping[str, Any], root: Path) -> None:
    """Write meta/info.json with every entry: 0.6's own function drops those that it does not know."""
    text = json.dumps(info, indent=4, ensure_ascii=False)
    # Half of a surrogate pair, which UTF-8 does not have, is written as JSON's own escape for it.
    (root / "meta" / "info.json").write_text(text, encoding="utf-8", errors="backslashreplace")


def convert_v21(folder: Path) -> None:
    """Run LeRobot's converter from v2.1 to v3.0 on ``folder``, which keeps its name; the old one ends on ``_old``."""
    if is_lerobot06():  # takes the folder itself
        converter = require("lerobot.scripts.convert_dataset_v21_to_v30", "lerobot")
        converter.convert_dataset(repo_id=folder.name, root=folder, push_to_hub=False)
    else:  # takes the folder above
        converter = require("lerobot.datasets.v30.convert_dataset_v21_to_v30", "lerobot")
        converter.convert_dataset(repo_id=folder.name, root=folder.parent, push_to_hub=False)


def abandon(dataset: Any) -> None:
    """Close a ``LeRobotDataset`` that is being recorded without the episodes that it still holds back.

    Otherwise it would write them when it is garbage-collected, into a folder that is gone by then.
    """
    held_back = dataset.meta._metadata_buffer if is_lerobot06() else dataset.meta.metadata_buffer
    held_back.clear()
    dataset.finalize()


def _files() -> ModuleType:
    return require("lerobot.datasets.io_utils" if is_lerobot06() else "lerobot.datasets.utils", "lerobot")
