"""Rules that look at one episode at a time: how long it is, how jerkily it moves, and how directly."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.scorers.base import SuspicionRule
from ptr_robot.scorers.registry import register_scorer
from ptr_robot.scorers.tracks import EpisodeSet


@register_scorer
class Length(SuspicionRule):
    """Frames: who does badly takes longer."""

    name = "length"
    title = "length"

    def suspicions(self, episodes: EpisodeSet) -> list[float]:
        """The number of frames."""
        return [float(track.num_frames) for track in episodes.tracks]


@register_scorer
class Jerk(SuspicionRule):
    """The mean squared second difference of the actions."""

    name = "jerk"
    title = "jerk"

    def suspicions(self, episodes: EpisodeSet) -> list[float]:
        """0 for an episode of fewer than three frames."""
        return [_mean_square(np.diff(track.actions, n=2, axis=0)) for track in episodes.tracks]


@register_scorer
class PathEfficiency(SuspicionRule):
    """How far the robot travels for how far it gets."""

    name = "path-efficiency"
    title = "path efficiency"

    def suspicions(self, episodes: EpisodeSet) -> list[float]:
        """The length of the path over the distance between its ends; 1 for an episode that does not move."""
        return [_path_ratio(track.states) for track in episodes.tracks]


def _path_ratio(states: NDArray[Any]) -> float:
    steps = np.linalg.norm(np.diff(states, axis=0), axis=1).sum() if len(states) > 1 else 0.0
    distance = float(np.linalg.norm(states[-1] - states[0]))
    return float(steps / max(distance, 1e-6)) if steps > 0 else 1.0


def _mean_square(values: NDArray[Any]) -> float:
    return float(np.mean(np.square(values, dtype=np.float64))) if values.size else 0.0
