"""How the robot moves in each episode, as a few numbers: two passes over the tables, one file in memory at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import DatasetIndex
from ptr_robot.data.lerobot.feature_statistics import RunningStatistics, measure_features
from ptr_robot.data.lerobot.tables import Columns, iterate_episodes

IDLE_SHARE = 0.1  # of a dimension's deviation: a robot that stays within it for a second stands still
SIGNATURE_POINTS = 16  # places in an episode at which it is compared with others

Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """The spread of each dimension of some features over the whole dataset."""

    keys: tuple[str, ...]
    names: tuple[str, ...]  # D
    deviation: Vectors  # (D,)
    minimum: Vectors  # (D,)
    maximum: Vectors  # (D,)
    is_discrete: NDArray[np.bool_]  # (D,) two values or one, such as a gripper command

    @property
    def moving(self) -> NDArray[np.bool_]:
        """The dimensions that take more than one value."""
        return self.maximum > self.minimum  # (D,)


@dataclass(frozen=True)
class EpisodeMotion:
    """What is measured on one episode; NaN where the dataset has nothing to measure it on."""

    episode_index: int
    jerk: float  # mean second difference of the actions, in deviations
    idle_frames: int  # frames in seconds during which the robot stood still
    longest_idle: int  # frames
    largest_step: float  # seconds between two frames
    signature: Vectors  # (16 * D,) states and actions at 16 places, in deviations


@dataclass(frozen=True)
class Motion:
    """The episodes of a dataset, measured."""

    states: Scale
    actions: Scale
    episodes: tuple[EpisodeMotion, ...]
    not_finite: Mapping[str, tuple[int, ...]]  # features that hold NaN or infinity, and in which episodes


def measure_motion(index: DatasetIndex) -> Motion:
    """Measure every usable episode on those of its ``observation*`` and ``action*`` vectors that are finite."""
    floats = [key for key in index.vector_keys if index.features[key].dtype.startswith("float")]
    running = measure_features(index, floats)
    sound = [key for key in floats if running[key].is_finite]
    states = _measure_scale(index, running, tuple(key for key in sound if key.startswith("observation")))
    actions = _measure_scale(index, running, tuple(key for key in sound if key.startswith("action")))
    unsound = [key for key in floats if key not in sound]
    not_finite: dict[str, list[int]] = {key: [] for key in unsound}
    episodes: list[EpisodeMotion] = []
    for record, values in iterate_episodes(index, [*states.keys, *actions.keys, *unsound, "timestamp"]):
        episodes.append(_measure_episode(record.episode_index, values, states, actions, index.fps))
        for key in unsound:
            if not np.isfinite(values[key]).all():
                not_finite[key].append(record.episode_index)
    return Motion(states, actions, tuple(episodes), {key: tuple(numbers) for key, numbers in not_finite.items()})


def _measure_scale(index: DatasetIndex, running: Mapping[str, RunningStatistics], keys: tuple[str, ...]) -> Scale:
    names = tuple(name for key in keys for name in _dimension_names(index, key))
    statistics = [running[key].result() for key in keys]
    return Scale(
        keys,
        names,
        deviation=_end_to_end([part.std for part in statistics]),
        minimum=_end_to_end([part.minimum for part in statistics]),
        maximum=_end_to_end([part.maximum for part in statistics]),
        is_discrete=_end_to_end([running[key].is_discrete for key in keys]).astype(np.bool_),
    )


def _end_to_end(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0)


def _join(values: Columns, keys: tuple[str, ...]) -> Vectors:  # (frames, D)
    if not keys:
        return np.zeros((len(values["timestamp"]), 0))
    parts = [values[key].reshape(len(values[key]), -1) for key in keys]
    return np.concatenate(parts, axis=1).astype(np.float64)


def _dimension_names(index: DatasetIndex, key: str) -> list[str]:
    feature = index.features[key]
    named = len(feature.names) == feature.size
    return [f"{key}[{place}]" + (f" {feature.names[place]}" if named else "") for place in range(feature.size)]


def _measure_episode(number: int, values: Columns, states: Scale, actions: Scale, fps: float) -> EpisodeMotion:
    positions = _scaled(_join(values, states.keys), states)  # (frames, moving D)
    commands = _scaled(_join(values, actions.keys), actions)  # (frames, moving D)
    smooth = commands[:, ~actions.is_discrete[actions.moving]]
    jerk = np.abs(np.diff(smooth, n=2, axis=0)).mean() if smooth.shape[1] and len(smooth) > 2 else np.nan
    idle = _idle_frames(positions, window=max(2, round(fps)))
    times = values["timestamp"].astype(np.float64).reshape(-1)
    places = np.linspace(0, len(times) - 1, SIGNATURE_POINTS).round().astype(int)
    return EpisodeMotion(
        episode_index=number,
        jerk=float(jerk),
        idle_frames=int(idle.sum()),
        longest_idle=_longest_run(idle),
        largest_step=float(np.diff(times).max()) if len(times) > 1 else 0.0,
        signature=np.concatenate([positions, commands], axis=1)[places].ravel(),
    )


def _scaled(values: Vectors, scale: Scale) -> Vectors:
    return values[:, scale.moving] / scale.deviation[scale.moving]


def _idle_frames(positions: Vectors, window: int) -> NDArray[np.bool_]:  # (frames,)
    """The frames of every window in which no dimension leaves a small box."""
    idle = np.zeros(len(positions), dtype=np.bool_)
    if len(positions) < window or positions.shape[1] == 0:
        return idle
    windows = sliding_window_view(positions, window, axis=0)  # (starts, D, window)
    still = (windows.max(axis=2) - windows.min(axis=2) < IDLE_SHARE).all(axis=1)  # (starts,)
    for offset in range(window):
        idle[offset : offset + len(still)] |= still
    return idle


def _longest_run(flags: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max(initial=0))
