"""How the robot moves in each episode, as a few numbers: two passes over the tables, one file in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ptr_robot.data.records import DatasetIndex
from ptr_robot.data.tables import Columns, iterate_episodes

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


def measure_motion(index: DatasetIndex) -> Motion:
    """Measure every usable episode on its ``observation*`` and ``action*`` vectors."""
    floats = [key for key in index.vector_keys if index.features[key].dtype.startswith("float")]
    states = _measure_scale(index, tuple(key for key in floats if key.startswith("observation")))
    actions = _measure_scale(index, tuple(key for key in floats if key.startswith("action")))
    columns = [*states.keys, *actions.keys, "timestamp"]
    episodes = tuple(
        _measure_episode(record.episode_index, values, states, actions, index.fps)
        for record, values in iterate_episodes(index, columns)
    )
    return Motion(states, actions, episodes)


def _measure_scale(index: DatasetIndex, keys: tuple[str, ...]) -> Scale:
    names = tuple(name for key in keys for name in _dimension_names(index, key))
    size = len(names)
    total, squares, count = np.zeros(size), np.zeros(size), 0
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    for values in _stacked(index, keys):
        low, high = np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))
        total, squares, count = total + values.sum(axis=0), squares + (values**2).sum(axis=0), count + len(values)
    mean = total / max(count, 1)
    deviation = np.sqrt(np.maximum(squares / max(count, 1) - mean**2, 0))
    is_discrete = np.ones(size, dtype=np.bool_)
    for values in _stacked(index, keys):
        is_discrete &= ((values == low) | (values == high)).all(axis=0)
    return Scale(keys, names, deviation, low, high, is_discrete)


def _stacked(index: DatasetIndex, keys: tuple[str, ...]) -> Iterator[Vectors]:
    if keys:
        for _, values in iterate_episodes(index, keys):
            yield _join(values, keys)


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
