"""How far an episode has got, by what it looks like: against the time that has passed, and at its end."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement, spread_to_frames
from ptr_robot.method.scoring.channels.prediction import Expectation, observed, rows_of_an_episode
from ptr_robot.method.scoring.recordings import Array, Recording, Recordings, chunk_starts

_LEAST_SKILL = 0.1
_END_SHARE = 0.1  # of an episode's looked-at frames, at either end


@lru_cache(maxsize=1)
def expected_progress(recordings: Recordings, seed: int) -> Expectation | None:
    """The share of the episode that has passed, from the observation; None where it cannot be told."""
    most = rows_of_an_episode(recordings)

    def cut(episode: Recording) -> tuple[NDArray[np.int64], Array, Array]:
        rows = chunk_starts(episode.num_frames, 0, most)
        passed = rows / max(1, episode.num_frames - 1)
        return rows, observed(episode, rows), passed[:, None].astype(np.float32)

    expectation = Expectation(recordings, cut, "progress", seed)
    return expectation if expectation.models and max(expectation.skill.values()) > _LEAST_SKILL else None


class _ProgressChannel(Channel):
    """Asks what an episode's frames look like in progress."""

    is_contextual = True
    is_drawn = True

    @staticmethod
    @abstractmethod
    def fitted(expectation: Expectation) -> FittedChannel:
        """The channel that measures by it."""

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:
        """None where progress cannot be told."""
        expectation = expected_progress(recordings, seed)
        return None if expectation is None else self.fitted(expectation)


class Phase(_ProgressChannel):
    """Situations that come at another share of the episode than elsewhere: left running, started late, out of order."""

    name = "phase"
    reason = "situations come at an unusual time"

    @staticmethod
    def fitted(expectation: Expectation) -> FittedChannel:
        """By squared error."""
        return _PhaseError(expectation)


class _PhaseError(FittedChannel):
    def __init__(self, expectation: Expectation) -> None:
        self.expectation = expectation

    def measure(self, episode: Recording) -> Measurement:
        """The logarithm of the root mean squared error."""
        rows, errors, _, _ = self.expectation.errors(episode)
        if not len(rows):
            return Measurement(float("nan"))
        frames = spread_to_frames(rows, np.abs(errors[:, 0]), episode.num_frames)
        return Measurement(float(np.log(np.sqrt((errors**2).mean()) + 0.01)), frames)


class Beginning(_ProgressChannel):
    """Episodes that begin in the middle: recording was started late."""

    name = "beginning"
    reason = "begins when a part is done"
    floor = 0.1  # of the episode: nobody starts at the same moment of a task

    @staticmethod
    def fitted(expectation: Expectation) -> FittedChannel:
        """How much is done at the start."""
        return _AtOneEnd(expectation, is_last=False)


class Completion(_ProgressChannel):
    """Episodes that end in the middle: cut off, or given up."""

    name = "completion"
    reason = "ends before it is done"

    @staticmethod
    def fitted(expectation: Expectation) -> FittedChannel:
        """How much is still to do at the end."""
        return _AtOneEnd(expectation, is_last=True)


class _AtOneEnd(FittedChannel):
    def __init__(self, expectation: Expectation, *, is_last: bool) -> None:
        self.expectation, self.is_last = expectation, is_last

    def measure(self, episode: Recording) -> Measurement:
        """By what the first or the last frames look like."""
        rows, _, predicted, _ = self.expectation.errors(episode)
        if len(rows) < 4:
            return Measurement(float("nan"))
        count = max(2, round(_END_SHARE * len(rows)))
        if self.is_last:
            progress = float(np.median(predicted[-count:, 0]))
            note = f"ends when about {max(progress, 0.0):.0%} is done" if progress < 0.8 else ""
            return Measurement(1.0 - progress, note=note)
        progress = float(np.median(predicted[:count, 0]))
        return Measurement(
            progress, note=f"begins when about {min(progress, 1.0):.0%} is done" if progress > 0.2 else ""
        )
