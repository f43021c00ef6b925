"""Detours and second attempts: how far the robot travels for how far it gets."""

from __future__ import annotations

import numpy as np

from ptr_robot.method.scoring.channels.base import (
    FittedChannel,
    Measurement,
    PlainChannel,
    moving_average,
    spread_to_frames,
)
from ptr_robot.method.scoring.recordings import Recording, Recordings

_LEAST = 1e-4


class PathLength(PlainChannel):
    """The length of the smoothed path over the size of the region that it covers, as a logarithm."""

    name = "path"
    reason = "takes a detour or goes back and forth"
    is_contextual = True

    def __init__(self, window: int = 1) -> None:
        self.window = window

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel:  # noqa: ARG002
        """A tenth of a second is smoothed away: trembling is another fault."""
        return PathLength(max(3, round(recordings.fps / 10)))

    def measure(self, episode: Recording) -> Measurement:
        """Zero for a straight line; an episode that does not move is no detour."""
        if episode.num_frames < 4:
            return Measurement(float("nan"))
        smooth = moving_average(episode.states, self.window)
        steps = np.linalg.norm(np.diff(smooth, axis=0), axis=1)  # (T - 1,)
        extent = float(np.linalg.norm(np.ptp(smooth, axis=0)))
        if extent < _LEAST:
            return Measurement(0.0)
        frames = spread_to_frames(np.arange(len(steps)), steps / extent, episode.num_frames)
        return Measurement(float(np.log(max(steps.sum() / extent, _LEAST))), frames)
