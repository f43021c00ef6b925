"""The quality of every episode of a dataset: all channels fitted, calibrated and combined.

Nothing here knows a file or a robot; ``Recordings`` in, evidence out. What is fitted can measure altered copies of the
same episodes as well, which is how the result is checked on the user's own data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ptr_robot.errors import ConfigError, DataError
from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement
from ptr_robot.method.scoring.channels.command import Command
from ptr_robot.method.scoring.channels.duration import Duration
from ptr_robot.method.scoring.channels.dynamics import ActionsExplainMotion, Timing
from ptr_robot.method.scoring.channels.ending import Ending
from ptr_robot.method.scoring.channels.instruction import FittedInstruction, Instruction
from ptr_robot.method.scoring.channels.path import PathLength
from ptr_robot.method.scoring.channels.placement import Placement
from ptr_robot.method.scoring.channels.prediction import Pace, WhichAction, WhichConsequence
from ptr_robot.method.scoring.channels.progress import Beginning, Completion, Phase
from ptr_robot.method.scoring.channels.smoothness import ActionNoise, StateNoise
from ptr_robot.method.scoring.channels.stillness import Extent, Frozen, Idle
from ptr_robot.method.scoring.channels.view import View
from ptr_robot.method.scoring.combination import Combination, combine
from ptr_robot.method.scoring.null_distribution import NullDistribution
from ptr_robot.method.scoring.recordings import Recording, Recordings
from ptr_robot.method.scoring.reference_set import calibrate, standardise

Values = NDArray[np.float64]
Report = Callable[[str, float], None]

# Raised where equal data come to be scored otherwise: what was recorded of another version is scored again.
QUALITY_VERSION = "5"

CHANNELS: tuple[Channel, ...] = (
    ActionNoise(),
    StateNoise(),
    Extent(),
    Idle(),
    Frozen(),
    ActionsExplainMotion(),
    Command(),
    Timing(),
    Placement(),
    PathLength(),
    Pace(),
    Phase(),
    Duration(),
    Beginning(),
    Completion(),
    Ending(),
    WhichAction(),
    WhichConsequence(),
    View(),
    Instruction(),
)
CHANNEL_NAMES = tuple(channel.name for channel in CHANNELS)
FEWEST_EPISODES = 4  # fewer cannot be compared with each other
_INSTRUCTION = CHANNEL_NAMES.index("instruction")
_SURE_ODDS = 3.0  # log odds against a given instruction, from which another one takes its place
_SURE_POSTERIOR = 0.9
_FRAMES_SAMPLED = 32  # of an episode


@dataclass(frozen=True)
class QualityConfig:
    """How episodes are scored."""

    # Share of good episodes that may be dropped by mistake.
    max_false_exclusions: float = 0.05
    # Draws of folds and random features that are averaged.
    num_seeds: int = 3
    # Folds of episodes: what an episode does is predicted by models that never saw it.
    num_folds: int = 5
    # Frames of a chunk: over which consequences are looked at.
    chunk_length: int = 16
    # The first of the seeds.
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.max_false_exclusions < 1:
            raise ConfigError(f"max_false_exclusions is {self.max_false_exclusions}; it must be at least 0 and below 1")
        for name, least in (("num_seeds", 1), ("num_folds", 2), ("chunk_length", 2), ("seed", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least {least}")


@dataclass(frozen=True, eq=False)
class Draw:
    """Everything that was fitted under one seed."""

    recordings: Recordings  # under the instructions that were found
    fitted: tuple[FittedChannel | None, ...]  # one a channel

    def measure(self, episode: Recording, given: int) -> list[Measurement]:
        """All channels on one episode; ``given`` is the instruction that the dataset has for it."""
        unknown = Measurement(float("nan"))
        found = []
        for name, channel in zip(CHANNEL_NAMES, self.fitted, strict=True):
            one = replace(episode, task=given) if name == "instruction" else episode
            found.append(unknown if channel is None else channel.measure(one))
        return found


@dataclass(frozen=True, eq=False)
class Quality:
    """What was found of ``E`` episodes by ``C`` channels."""

    draws: tuple[Draw, ...]
    nulls: tuple[NullDistribution, ...]  # one a channel
    combination: Combination
    scores: Values  # (E, C) standardised evidence, zero for a typical good episode; NaN: the channel says nothing
    evidence: Values  # (E,) nats against the episode
    spread: Values  # (E,) deviation of the evidence between draws
    given: NDArray[np.int64]  # (E,) the instruction that the dataset has for each
    labels: NDArray[np.int64]  # (E,) the instruction that each episode is taken to follow
    reference: NDArray[np.bool_]  # (E,) beyond suspicion: how good episodes are spread is learnt from these
    notes: tuple[tuple[str, ...], ...]  # (E, C) a channel's own words
    frames: tuple[dict[str, Values], ...]  # (E,) by channel (T,): how usual each frame is, 0 to 1

    def measure(self, episodes: Sequence[Recording], places: Sequence[int], given: Sequence[int]) -> Values:
        """The scores (n, C) of altered copies of the episodes at these places."""
        values = np.empty((len(self.draws), len(episodes), len(CHANNELS)))
        for row, draw in enumerate(self.draws):
            for column, (episode, place, task) in enumerate(zip(episodes, places, given, strict=True)):
                own = draw.recordings.episodes[place]
                copy = replace(episode, fold=own.fold, group=own.group, task=own.task)
                values[row, column] = [found.value for found in draw.measure(copy, task)]
        means = _mean_of_draws(values)
        tasks = np.repeat(self.labels[list(places)][:, None], len(CHANNELS), axis=1)
        tasks[:, _INSTRUCTION] = given
        return standardise(means, tasks, self.nulls)


def assess(recordings: Recordings, config: QualityConfig, report: Report | None = None) -> Quality:
    """Fit every channel under every seed, average, calibrate and combine."""
    if len(recordings) < FEWEST_EPISODES:
        raise DataError(
            f"scoring compares episodes with each other and needs at least {FEWEST_EPISODES}, there are "
            f"{len(recordings)}"
        )
    recordings = replace(recordings, num_folds=config.num_folds, chunk_length=config.chunk_length)
    given = recordings.tasks
    labels = given
    draws, measured = [], []
    for number in range(config.num_seeds):
        seed = config.seed + number
        folded = recordings.with_tasks(given.tolist()).with_folds(seed)
        instruction = Instruction().fit(folded, seed, first=labels)
        if number == 0 and instruction is not None:
            labels = _corrected(folded, instruction)
        draw = _fit_draw(folded.with_tasks(labels.tolist()), instruction, seed, number, config.num_seeds, report)
        draws.append(draw)
        measured.append([draw.measure(e, int(task)) for e, task in zip(draw.recordings.episodes, given, strict=True)])
    values = np.array([[[one.value for one in found] for found in part] for part in measured])  # (S, E, C)
    compared = np.repeat(labels[:, None], len(CHANNELS), axis=1)
    compared[:, _INSTRUCTION] = given
    floors, compares = zip(*((channel.floor, channel.is_contextual) for channel in CHANNELS), strict=True)
    nulls, scores, reference = calibrate(_mean_of_draws(values), compared, floors, compares)
    combination = combine(scores, config.max_false_exclusions)
    by_draw = np.stack([combination.evidence(standardise(part, compared, nulls)) for part in values])
    return Quality(
        draws=tuple(draws),
        nulls=nulls,
        combination=combination,
        scores=scores,
        evidence=combination.evidence(scores),
        spread=by_draw.std(axis=0),
        given=given,
        labels=labels,
        reference=reference,
        notes=tuple(tuple(one.note for one in found) for found in measured[0]),
        frames=frame_probabilities(measured[0], reference),
    )


def _mean_of_draws(values: Values) -> Values:  # (S, E, C) -> (E, C)
    """Over the draws in which a channel has something to say; NaN where it has in none."""
    known = np.isfinite(values)
    sums = np.where(known, values, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), sums / np.maximum(known.sum(axis=0), 1), np.nan)


def _fit_draw(
    recordings: Recordings,
    instruction: FittedChannel | None,
    seed: int,
    number: int,
    num_seeds: int,
    report: Report | None,
) -> Draw:
    fitted: list[FittedChannel | None] = []
    for place, channel in enumerate(CHANNELS):
        if report is not None:
            report(f"scoring, draw {number + 1} of {num_seeds}", place / len(CHANNELS))
        fitted.append(instruction if channel.name == "instruction" else channel.fit(recordings, seed))
    return Draw(recordings, tuple(fitted))


def _corrected(recordings: Recordings, instruction: FittedInstruction) -> NDArray[np.int64]:
    """The given instructions, but where the evidence for another one is strong."""
    labels = recordings.tasks
    for place, episode in enumerate(recordings.episodes):
        if instruction.odds_against(episode) > _SURE_ODDS:  # NaN is not
            best, posterior = instruction.likeliest(episode)
            if posterior > _SURE_POSTERIOR:
                labels[place] = best
    return labels


def frame_probabilities(
    measured: Sequence[Sequence[Measurement]], reference: NDArray[np.bool_]
) -> tuple[dict[str, Values], ...]:
    """By episode and channel, of every frame: the share of reference episodes' frames that look at least as bad."""
    usual: dict[int, Values] = {}
    for number in range(len(CHANNELS)):
        parts = [found[number].frames for found, is_good in zip(measured, reference, strict=True) if is_good]
        sampled = [part[:: max(1, len(part) // _FRAMES_SAMPLED)] for part in parts if part is not None and len(part)]
        if sampled:
            usual[number] = np.sort(np.concatenate(sampled))
    return tuple(
        {
            CHANNEL_NAMES[number]: _share_above(one.frames, usual[number])
            for number, one in enumerate(found)
            if one.frames is not None and number in usual
        }
        for found in measured
    )


def _share_above(values: Values, ordered: Values) -> Values:  # (T,), (n,) ascending -> (T,)
    above = (len(ordered) - np.searchsorted(ordered, values, side="left") + 0.5) / (len(ordered) + 1.0)
    return np.asarray(np.minimum(above, 1.0), dtype=np.float64)
