"""Noise on what was recorded: how much values differ from a smooth course through their neighbours."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement, Values, spread_to_frames
from ptr_robot.method.scoring.recordings import Recording, Recordings

_LEAST = 1e-8


class _Roughness(FittedChannel):
    """Third differences in units of what is usual for their dimension."""

    def __init__(self, part: str, dimensions: NDArray[np.intp], usual: Values) -> None:
        self.part, self.dimensions, self.usual = part, dimensions, usual

    def measure(self, episode: Recording) -> Measurement:
        """The logarithm of the mean square."""
        rough = third_differences(getattr(episode, self.part)[:, self.dimensions])
        if not rough.size:
            return Measurement(float("nan"))
        squares = (rough / self.usual) ** 2  # (T - 3, D)
        frames = np.log(squares.mean(axis=1) + _LEAST)
        value = float(np.log(np.median(_pieces(squares), axis=0) + _LEAST))
        return Measurement(value, spread_to_frames(np.arange(len(frames)) + 1, frames, episode.num_frames))


def _pieces(squares: Values, num_pieces: int = 8) -> Values:  # (T, D) -> (pieces,)
    """Means over equal parts of the episode: one contact does not make it noisy."""
    pieces = np.array_split(squares, min(num_pieces, len(squares)))
    return np.array([piece.mean() for piece in pieces])


def third_differences(values: Values) -> Values:  # (T, D) -> (T - 3, D)
    """What a parabola through neighbouring frames does not explain."""
    differences: Values = np.diff(values.astype(np.float64), n=3, axis=0)
    return differences


class ActionNoise(Channel):
    """Noise on the recorded actions."""

    name = "action_noise"
    reason = "actions are noisy"
    part: ClassVar[str] = "actions"

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:  # noqa: ARG002
        """Units are the median episode's, dimension by dimension; those that never move smoothly are left out."""
        width = getattr(recordings.episodes[0], self.part).shape[1]
        is_used = np.ones(width, dtype=np.bool_)
        if self.part == "actions" and recordings.is_smooth is not None:
            is_used &= recordings.is_smooth
        sizes = [
            np.sqrt((third_differences(getattr(episode, self.part)) ** 2).mean(axis=0))
            for episode in recordings.episodes
            if episode.num_frames > 3
        ]
        if not sizes:
            return None
        usual = np.quantile(sizes, 0.25, axis=0)  # (D,) of good episodes, where most are not
        dimensions = np.flatnonzero(is_used & (usual > _LEAST))
        return _Roughness(self.part, dimensions, usual[dimensions]) if len(dimensions) else None


class StateNoise(ActionNoise):
    """Noise or jumps in the recorded states."""

    name = "state_noise"
    reason = "states jump or tremble"
    part = "states"
