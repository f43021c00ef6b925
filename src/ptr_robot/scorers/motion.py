"""Rules that look at one episode at a time: how long it is, and how jerkily it moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptr_robot.scorers.tracks import Track


def length(tracks: Sequence[Track], chunk_length: int, seed: int) -> list[float]:  # noqa: ARG001 (all rules alike)
    """Frames: who does badly takes longer."""
    return [float(track.num_frames) for track in tracks]


def jerk(tracks: Sequence[Track], chunk_length: int, seed: int) -> list[float]:  # noqa: ARG001 (all rules alike)
    """The mean squared second difference of the actions; 0 for an episode of fewer than three frames."""
    return [_mean_square(np.diff(track.actions, n=2, axis=0)) for track in tracks]


def _mean_square(values: np.ndarray) -> float:
    return float(np.mean(np.square(values, dtype=np.float64))) if values.size else 0.0
