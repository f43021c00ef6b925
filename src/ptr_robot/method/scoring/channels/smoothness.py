"""Noise on what was recorded: how much values differ from a smooth course through their neighbours."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement, Values, spread_to_frames
from ptr_robot.method.scoring.recordings import Recording, Recordings

_QUANTILES = (0.25, 0.5, 0.75, 0.9)  # from the floor that noise raises everywhere to the peaks of trembling
_LEAST = 0.01  # of a dimension's deviation: what is smoother counts as smooth


class _Roughness(FittedChannel):
    """Third differences in units of the deviation that their dimension has over the dataset."""

    def __init__(self, part: str, deviation: Values) -> None:
        self.part, self.deviation = part, deviation

    def measure(self, episode: Recording) -> Measurement:
        """The mean logarithm over dimensions and quantiles of the episode's frames.

        Logarithms by dimension: noise shows first where a dimension is usually still, and one that moves much, or a
        contact, does not hide it.
        """
        rough = np.abs(third_differences(getattr(episode, self.part))) / self.deviation  # (T - 3, D)
        if not rough.size:
            return Measurement(float("nan"))
        frames = np.log(rough + _LEAST).mean(axis=1)
        value = float(np.log(np.quantile(rough, _QUANTILES, axis=0) + _LEAST).mean())
        return Measurement(value, spread_to_frames(np.arange(len(frames)) + 1, frames, episode.num_frames))


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
        """None where every episode is too short to say what is smooth."""
        if all(episode.num_frames <= 3 for episode in recordings.episodes):
            return None
        parts = [getattr(episode, self.part) for episode in recordings.episodes]
        count = sum(len(part) for part in parts)
        mean = np.sum([part.sum(axis=0, dtype=np.float64) for part in parts], axis=0) / count
        variance = np.sum([((part - mean) ** 2).sum(axis=0) for part in parts], axis=0) / count
        return _Roughness(self.part, np.sqrt(variance) + 1e-6)


class StateNoise(ActionNoise):
    """Noise or jumps in the recorded states."""

    name = "state_noise"
    reason = "states jump or tremble"
    part = "states"
