"""Statistics of what a corruption changed, computed by LeRobot's own functions for its own columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import EpisodeRecord, Feature
from ptr_robot.data.lerobot.frames import decode_episode
from ptr_robot.errors import DataError, require

FeatureStats = dict[str, NDArray[Any]]
EpisodeStats = dict[str, FeatureStats]
TOO_LARGE = "lower --sigma or look for huge values"


def read_episode_stats(row: Mapping[str, Any]) -> EpisodeStats:
    """The ``stats/{feature}/{statistic}`` columns of one row of the episode table."""
    stats: EpisodeStats = {}
    for column, value in row.items():
        if column.startswith("stats/") and value is not None:
            feature, statistic = column.removeprefix("stats/").rsplit("/", 1)
            stats.setdefault(feature, {})[statistic] = np.asarray(value)
    return stats


def write_episode_stats(row: dict[str, Any], stats: EpisodeStats) -> None:
    """Store ``stats`` in the statistics columns that ``row`` already has."""
    for column in row:
        if column.startswith("stats/"):
            feature, statistic = column.removeprefix("stats/").rsplit("/", 1)
            if feature in stats:
                if statistic not in stats[feature]:
                    raise DataError(f"meta/episodes has the column {column[:200]!r}, which LeRobot does not write")
                row[column] = stats[feature][statistic].tolist()


def numeric_stats(values: NDArray[Any], where: str) -> FeatureStats:
    """The statistics that LeRobot stores for a vector feature of one episode; a complaint starts with ``where``."""
    compute_stats = require("lerobot.datasets.compute_stats", "lerobot")
    try:
        stats: FeatureStats = compute_stats.get_feature_stats(values, axis=0, keepdims=values.ndim == 1)
    except ValueError as error:  # of a histogram whose edges are beyond the type
        raise DataError(f"{where}: the statistics would not be finite; {TOO_LARGE}") from error
    return stats


def picture_stats(episode: EpisodeRecord, feature: Feature, fps: float) -> FeatureStats:
    """The statistics that LeRobot stores for a camera of one episode, from the frames that it samples.

    In floating point: LeRobot squares the values to find their deviation, and bytes would wrap around.
    """
    compute_stats = require("lerobot.datasets.compute_stats", "lerobot")
    sampled = set(compute_stats.sample_indices(episode.length))
    frames = [
        compute_stats.auto_downsample_height_width(frame.transpose(2, 0, 1))
        for number, frame in enumerate(decode_episode(episode, feature, fps))
        if number in sampled
    ]
    pixels = np.stack(frames) / 255.0  # (n, 3, H, W)
    stats = compute_stats.get_feature_stats(pixels, axis=(0, 2, 3), keepdims=True)
    return {key: value if key == "count" else value.squeeze(axis=0) for key, value in stats.items()}


def dataset_stats(previous: EpisodeStats, episodes: Sequence[EpisodeStats], changed: set[str]) -> EpisodeStats:
    """``previous`` with the ``changed`` features aggregated anew; the others stay bit for bit."""
    compute_stats = require("lerobot.datasets.compute_stats", "lerobot")
    parts = [{key: stats[key] for key in changed if key in stats} for stats in episodes]
    try:
        aggregated: EpisodeStats = compute_stats.aggregate_stats(parts)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise DataError(
            f"meta/episodes holds statistics of other shapes than the data ({reason}); fetch the dataset again"
        ) from error
    return {**previous, **aggregated}


def are_finite(stats: FeatureStats) -> bool:
    """Whether every statistic is a number."""
    return all(np.isfinite(values).all() for values in stats.values())
