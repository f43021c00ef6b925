"""Which episode gets which corruption: decided from lengths, instructions and the seed alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptr_robot.data.corruptions.kinds import ActionNoise, Corruption, LabelNoise, Truncation
from ptr_robot.errors import ConfigError, DataError

# Each kind has its random stream, so that the noise of "combined" is that of "ani" with the same seed.
_STREAMS: dict[type, int] = {ActionNoise: 1, Truncation: 2, LabelNoise: 3}
_ROUNDING = 1e-9  # 0.7 * 90 is 62.999… in floating point


@dataclass(frozen=True)
class PlannedEpisode:
    """What the plan needs to know about an episode."""

    index: int
    length: int
    instructions: tuple[str, ...]


@dataclass(frozen=True)
class EpisodeEdit:
    """What is done to one episode; None stands for nothing."""

    noise: ActionNoise | None = None
    kept_frames: int | None = None
    instruction: str | None = None


def plan_edits(
    episodes: Sequence[PlannedEpisode], corruptions: Sequence[Corruption], seed: int
) -> dict[int, EpisodeEdit]:
    """The edit of every episode by its index; kinds are drawn independently, so one may get several."""
    if seed < 0:
        raise ConfigError(f"seed is {seed}; it must not be negative")
    edits = {episode.index: EpisodeEdit() for episode in episodes}
    for corruption in corruptions:
        generator = np.random.default_rng([seed, _STREAMS[type(corruption)]])
        for index, change in _draw(corruption, episodes, generator).items():
            edits[index] = dataclasses.replace(edits[index], **change)
    return edits


def noise_generator(seed: int, episode_index: int) -> np.random.Generator:
    """The stream of an episode's action noise, the same whichever episodes and files come before it."""
    return np.random.default_rng([seed, _STREAMS[ActionNoise], episode_index])


def truncation_range(length: int, truncation: Truncation) -> range:
    """The numbers of frames that may stay of an episode; empty where it is too short to cut."""
    shortest = max(1, math.ceil(truncation.keep_from * length - _ROUNDING))
    longest = min(length - 1, math.floor(truncation.keep_to * length + _ROUNDING))
    return range(shortest, longest + 1)


def _draw(
    corruption: Corruption, episodes: Sequence[PlannedEpisode], generator: np.random.Generator
) -> dict[int, dict[str, Any]]:
    if isinstance(corruption, ActionNoise):
        chosen = _choose(episodes, len(episodes), corruption.fraction, generator)
        return {episode.index: {"noise": corruption} for episode in chosen}
    if isinstance(corruption, Truncation):
        return _draw_truncations(corruption, episodes, generator)
    return _draw_instructions(corruption, episodes, generator)


def _draw_truncations(
    truncation: Truncation, episodes: Sequence[PlannedEpisode], generator: np.random.Generator
) -> dict[int, dict[str, Any]]:
    long_enough = [episode for episode in episodes if truncation_range(episode.length, truncation)]
    wanted = _number_hit(len(episodes), truncation.fraction)
    if len(long_enough) < wanted:
        raise DataError(
            f"{wanted} of {len(episodes)} episodes are to be truncated to {truncation.keep_from:.0%}-"
            f"{truncation.keep_to:.0%}, but only {len(long_enough)} are long enough; lower --fraction"
        )
    chosen = _choose(long_enough, len(episodes), truncation.fraction, generator)
    return {
        episode.index: {"kept_frames": int(generator.choice(truncation_range(episode.length, truncation)))}
        for episode in chosen
    }


def _draw_instructions(
    label_noise: LabelNoise, episodes: Sequence[PlannedEpisode], generator: np.random.Generator
) -> dict[int, dict[str, Any]]:
    known = sorted({instruction for episode in episodes for instruction in episode.instructions})
    if len(known) < 2:
        raise DataError(
            f"label noise needs another instruction to give, and this dataset has only {known[0]!r}; "
            "merge it with a dataset of another task first, or choose another --kind"
        )
    others = {
        episode.index: [instruction for instruction in known if instruction not in episode.instructions]
        for episode in episodes
    }
    replaceable = [episode for episode in episodes if others[episode.index]]
    wanted = _number_hit(len(episodes), label_noise.fraction)
    if len(replaceable) < wanted:
        raise DataError(
            f"{wanted} of {len(episodes)} episodes are to get another instruction and {len(replaceable)} can: "
            "the others hold every instruction of the dataset themselves; lower --fraction"
        )
    chosen = _choose(replaceable, len(episodes), label_noise.fraction, generator)
    return {episode.index: {"instruction": str(generator.choice(others[episode.index]))} for episode in chosen}


def _choose(
    candidates: Sequence[PlannedEpisode], num_episodes: int, fraction: float, generator: np.random.Generator
) -> list[PlannedEpisode]:
    positions = generator.permutation(len(candidates))[: _number_hit(num_episodes, fraction)]
    return [candidates[position] for position in sorted(positions)]


def _number_hit(num_episodes: int, fraction: float) -> int:
    """``round(fraction * N)``; zero is refused, because a corruption that touches nothing is a mistake."""
    number = round(fraction * num_episodes)
    if number == 0:
        raise DataError(
            f"a fraction of {fraction} of {num_episodes} episodes is less than one episode; raise --fraction"
        )
    return number
