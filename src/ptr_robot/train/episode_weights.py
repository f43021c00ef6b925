"""How much each episode counts beforehand, from a file that the user brings."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.text_files import is_episode_number, read_json

_LEAST = 1e-6


def read_episode_weights(file: Path, dataset: SegmentDataset) -> Tensor:  # (episodes,)
    """A factor for every episode of the one source, from a JSON object {"episode_index": weight}."""
    if len(dataset.sources) != 1:
        raise ConfigError(
            f"dataset.episode_weights names the episodes of one dataset, and this run reads {len(dataset.sources)}; "
            "give sources weights of their own instead (dataset.sources: [{repo_id, weight}])"
        )
    index = dataset.sources[0].index
    weights = torch.ones(index.total_episodes)
    entries = _read(file)
    for episode in index.episodes:
        number = episode.episode_index
        if number not in entries:
            raise DataError(f"{file}: episode {number} has no weight; every episode of the run needs one")
        weights[number] = entries[number]
    if unknown := sorted(number for number in entries if number >= index.total_episodes):
        raise DataError(
            f"{file} has a weight for episode {unknown[0]}, and the dataset has {index.total_episodes} episodes; "
            "is it the file of another dataset?"
        )
    if not any(entries[episode.episode_index] > 0 for episode in index.episodes):
        raise DataError(f"{file}: every episode of the run weighs nothing; give at least one a weight above 0")
    return weights


def _read(file: Path) -> dict[int, float]:
    try:
        entries = read_json(file, "mend the file")
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: not a readable JSON file ({error})") from error
    if not isinstance(entries, dict):
        raise DataError(f'{file}: must be an object such as {{"0": 1.0, "1": 0.25}}')
    weights = {}
    for name, value in entries.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_weight = is_number and -math.inf < value < math.inf  # which a whole number too large for a float is, too
        if is_weight and value > 0 and not _LEAST <= value <= 1 / _LEAST:
            raise DataError(
                f"{file}: episode {name} weighs {value}; weights count against each other, so bring them between "
                f"{_LEAST} and {1 / _LEAST:.0f} (or 0)"
            )
        if not is_episode_number(name) or not is_weight or value < 0:
            raise DataError(
                f"{file}: {name[:60]!r}: {value!r} is no weight of an episode; give index and a number >= 0"
            )
        weights[int(name)] = float(value)
    return weights
