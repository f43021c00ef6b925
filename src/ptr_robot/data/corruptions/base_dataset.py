"""The dataset a corruption starts from: in LeRobot's v3.0 layout, converted by LeRobot where it is v2.1."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.ground_truth import read_ground_truth
from ptr_robot.data.lerobot import compat
from ptr_robot.data.lerobot.feature_statistics import compute_statistics
from ptr_robot.data.lerobot.index import DatasetIndex, open_index
from ptr_robot.data.lerobot.metadata import read_info, read_json_lines, read_tasks
from ptr_robot.errors import ConfigError, DataError, did_you_mean
from ptr_robot.text_files import read_json

RECIPE_FILE = "meta/ptr_corruption.json"
CONVERTED = "converted"


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


def check_source(root: Path, vector_keys: Sequence[str]) -> DatasetIndex:
    """Open and check the dataset before anything is written; every complaint names a file of its own.

    No episode is left out: the copy keeps the numbers of the source's episodes, so that the two can be compared.
    """
    index = open_index(root, skip_bad_episodes=True, vector_keys=vector_keys)
    if index.left_out:
        others = f" ({len(index.left_out) - 1} more episodes have problems)" if len(index.left_out) > 1 else ""
        raise DataError(f"{index.left_out[0]}; mend or remove the episode first, a corrupted copy keeps all{others}")
    if index.version == "v2.1":
        _check_episode_statistics(index)
    else:
        read_stats(index.root)
    read_recipe(index.root)
    read_ground_truth(index.root)
    return index


def read_stats(root: Path) -> dict[str, dict[str, NDArray[Any]]]:
    """The statistics of a v3.0 dataset by feature; none where it has no such file."""
    try:
        stats = compat.load_stats(root)
        for feature, values in stats.items():
            if not isinstance(values, dict) or not all(array.dtype.kind in "biuf" for array in values.values()):
                raise TypeError(f"{feature[:200]!r} has no numbers under min, max, mean and std")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        path = root / "meta" / "stats.json"
        raise DataError(f"{path}: not the statistics of a dataset ({error}); fetch the dataset again") from error
    return stats


def read_recipe(root: Path) -> list[dict[str, Any]]:
    """The corruptions that a dataset went through already, the first one first."""
    path = root / RECIPE_FILE
    steps = read_json(path, "fetch the dataset again") if path.is_file() else []
    if not isinstance(steps, list):
        raise DataError(f"{path}: holds a {type(steps).__name__}, not a list of corruptions; fetch the dataset again")
    return steps


def _check_episode_statistics(index: DatasetIndex) -> None:
    """LeRobot's converter counts these lines and gives up without a name."""
    path = index.root / "meta" / "episodes_stats.jsonl"
    numbers = [line.get("episode_index") for line in read_json_lines(path)]
    listed = {number for number in numbers if isinstance(number, int)}
    for episode in index.episodes:
        if episode.episode_index not in listed:
            raise DataError(f"{path}: no line for episode {episode.episode_index}; fetch the dataset again")


def measure_actions(index: DatasetIndex, action_key: str) -> NDArray[np.float64]:  # (dimensions,)
    """The standard deviation of each action dimension over the whole dataset, from the recorded values."""
    if action_key not in index.features:
        hint = did_you_mean(action_key, index.features)
        raise ConfigError(f"{index.root}: there is no feature {action_key!r} (--action_key); {hint}")
    feature = index.feature(action_key)
    if len(feature.shape) != 1:
        raise DataError(
            f"{index.root}: {action_key!r} has the shape {feature.shape}; corruptions work on action vectors"
        )
    if not feature.dtype.startswith("float"):
        raise DataError(
            f"{index.root}: {action_key!r} holds {feature.dtype} values; Gaussian noise needs floating point"
        )
    statistics = compute_statistics(index, action_key)
    if not np.isfinite(statistics.std).all():
        raise DataError(f"{index.root}: the deviation of {action_key!r} is not finite; look for huge values")
    return statistics.std


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
    (workspace / CONVERTED).symlink_to(root.resolve(), target_is_directory=True)
    try:
        with silence():
            compat.convert_v21(workspace / CONVERTED)
    except Exception as error:
        cause = _first_cause(error)
        if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
            raise cause from error
        reason = " ".join(f"{type(cause).__name__}: {cause}".split())
        raise DataError(f"{root}: LeRobot cannot convert this v2.1 dataset ({reason})") from error
    return workspace / CONVERTED


def _first_cause(error: BaseException) -> BaseException:
    """What happened, below the errors that wrap it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Keep the converter's prints, progress bars and log lines out of the terminal."""
    previous, handlers = logging.root.manager.disable, list(logging.root.handlers)
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
        logging.root.handlers[:] = handlers  # what was set up meanwhile writes where nothing can be written any more
