"""The dataset a corruption starts from: in LeRobot's v3.0 layout, converted by LeRobot where it is v2.1."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptr_robot.data.metadata import read_info, read_tasks
from ptr_robot.errors import DataError, require

_CONVERTED = "converted"


@dataclass(frozen=True)
class SourceDataset:
    """The metadata of a v3.0 dataset on disk, as plain values."""

    root: Path
    info: dict[str, Any]
    task_indices: dict[str, int]  # instruction -> task_index
    episode_files: tuple[Path, ...]
    data_files: tuple[Path, ...]

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """LeRobot's description of every column."""
        features: dict[str, dict[str, Any]] = self.info["features"]
        return features

    def keys_of(self, dtype: str) -> list[str]:
        """The features stored as ``dtype``: ``video`` or ``image``."""
        return [key for key, feature in self.features.items() if feature["dtype"] == dtype]


def open_source(root: Path, workspace: Path) -> SourceDataset:
    """Read the metadata at ``root``; a v2.1 dataset is converted into ``workspace`` and stays untouched."""
    if read_info(root)["codebase_version"] == "v2.1":
        root = _convert(root, workspace)
    source = SourceDataset(
        root=root,
        info=read_info(root),
        task_indices={task: index for index, task in read_tasks(root, "v3.0").items()},
        episode_files=tuple(sorted(root.glob("meta/episodes/*/*.parquet"))),
        data_files=tuple(sorted(root.glob("data/*/*.parquet"))),
    )
    for files, place in ((source.episode_files, "meta/episodes"), (source.data_files, "data")):
        if not files:
            raise DataError(f"{root / place}: no parquet file here; fetch the dataset again")
    return source


def _convert(root: Path, workspace: Path) -> Path:
    """Run LeRobot's converter on a symbolic link.

    It reads through the link, writes its result beside it and at the end renames the link alone.
    """
    converter = require("lerobot.datasets.v30.convert_dataset_v21_to_v30", "lerobot")
    (workspace / _CONVERTED).symlink_to(root.resolve(), target_is_directory=True)
    try:
        with _silence():
            converter.convert_dataset(repo_id=_CONVERTED, root=workspace, push_to_hub=False)
    except (ValueError, KeyError, FileNotFoundError) as error:
        raise DataError(f"{root}: LeRobot cannot convert this v2.1 dataset ({error})") from error
    return workspace / _CONVERTED


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep the converter's prints, progress bars and log lines out of the terminal."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with (
            Path(os.devnull).open("w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            yield
    finally:
        logging.disable(previous)
