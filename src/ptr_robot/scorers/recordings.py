"""Reads a dataset of any robot for scoring: no slots, no robot map, only what its tables hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import DatasetIndex, EpisodeRecord
from ptr_robot.data.lerobot.feature_statistics import RunningStatistics
from ptr_robot.data.lerobot.tables import Columns, iterate_episodes
from ptr_robot.data.robots.normalisers import make_normaliser
from ptr_robot.errors import ConfigError, DataError, did_you_mean
from ptr_robot.method.scoring.recordings import Recording, Recordings

USUAL_STATES = ("observation.state", "observation.environment_state")
Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class ReadDataset:
    """The usable episodes of a dataset, ready to be scored."""

    recordings: Recordings
    records: tuple[EpisodeRecord, ...]  # in the same order
    instructions: tuple[str, ...]  # by task number


def state_keys_of(index: DatasetIndex, wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The features that are the state: those that are named, or LeRobot's usual ones, or all observed vectors."""
    floats = [key for key in index.vector_keys if index.features[key].dtype.startswith("float")]
    for key in wanted:
        if key not in index.vector_keys:
            raise ConfigError(f"{index.root}: there is no vector {key!r}; {did_you_mean(key, index.vector_keys)}")
    usual = [key for key in USUAL_STATES if key in floats]
    found = tuple(wanted or usual or [key for key in floats if key.startswith("observation")])
    if not found:
        raise DataError(f"{index.root}: there is no state to score by; name one with --state_keys=KEY")
    return found


def read_recordings(
    index: DatasetIndex, state_keys: Sequence[str], action_key: str, chunk_length: int = 16
) -> ReadDataset:
    """States and actions of all usable episodes, each dimension scaled by its own percentiles; constant ones go."""
    if action_key not in index.vector_keys:
        raise ConfigError(
            f"{index.root}: there is no vector {action_key!r}; {did_you_mean(action_key, index.vector_keys)}"
        )
    states, actions, records, tasks = [], [], [], []
    for record, columns in iterate_episodes(index, [*dict.fromkeys([*state_keys, action_key]), "task_index"]):
        states.append(_join(columns, state_keys, record.length))
        actions.append(_join(columns, [action_key], record.length))
        records.append(record)
        tasks.append(index.tasks[int(columns["task_index"].reshape(-1)[0])])
    recordings, instructions = scaled_recordings(states, actions, tasks, fps=index.fps, chunk_length=chunk_length)
    return ReadDataset(recordings, tuple(records), instructions)


def scaled_recordings(
    states: Sequence[Vectors], actions: Sequence[Vectors], tasks: Sequence[str], *, fps: float, chunk_length: int
) -> tuple[Recordings, tuple[str, ...]]:
    """Episodes as they were recorded in the units that they are compared in, and the instructions by task number."""
    instructions = tuple(dict.fromkeys(tasks))
    numbers = {text: number for number, text in enumerate(instructions)}
    (states, _), (actions, is_discrete) = _scaled(states), _scaled(actions)
    episodes = tuple(
        Recording(state, action, numbers[task]) for state, action, task in zip(states, actions, tasks, strict=True)
    )
    return Recordings(episodes, fps, chunk_length, is_smooth=~is_discrete), instructions


def _join(columns: Columns, keys: Sequence[str], length: int) -> Vectors:  # (frames, D)
    return np.concatenate([columns[key].reshape(length, -1).astype(np.float32) for key in keys], axis=1)


def _scaled(parts: Sequence[Vectors]) -> tuple[list[Vectors], NDArray[np.bool_]]:
    """The 1st and 99th percentile at -1 and 1, without constant dimensions; and which of the rest have two values."""
    running = RunningStatistics(parts[0].shape[1], sum(map(len, parts)))
    for part in parts:
        running.add(part.astype(np.float64))
    statistics = running.result()
    moving = ~statistics.is_constant
    if not moving.any():
        moving = np.ones_like(moving)  # nothing ever moves: every episode is alike, and scored so
    normaliser = make_normaliser(statistics, ["q99"] * len(moving))
    scaled = [np.clip(normaliser.normalise(part)[:, moving], -20.0, 20.0) for part in parts]
    return scaled, running.is_discrete[moving]
