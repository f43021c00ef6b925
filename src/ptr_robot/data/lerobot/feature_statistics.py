"""Statistics of vector features over a dataset: the one place where means and deviations are computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import DatasetIndex, EpisodeRecord
from ptr_robot.data.lerobot.tables import Columns, iterate_episodes
from ptr_robot.data.robots.normalisers import VectorStatistics
from ptr_robot.errors import DataError

QUANTILE_FRAMES = 500_000  # quantiles look at evenly spaced frames, at most this many

Vectors = NDArray[np.float64]


class RunningStatistics:
    """Takes the frames of a feature part by part; holds only those that the quantiles look at.

    Means and squares are merged part by part, so that large values with a small spread lose no digits. A NaN
    anywhere shows in every statistic of its dimension.
    """

    def __init__(self, size: int, num_frames: int) -> None:
        self.count = 0
        self.is_finite = True
        self.is_discrete = np.ones(size, dtype=np.bool_)  # (D,) two values at most, such as a gripper command
        self._stride = max(1, -(-num_frames // QUANTILE_FRAMES))
        self._mean, self._squares = np.zeros(size), np.zeros(size)
        self._minimum, self._maximum = np.zeros(size), np.zeros(size)
        self._sampled: list[Vectors] = []

    def add(self, frames: Vectors) -> None:
        """The next frames, (n, D)."""
        self.is_finite = self.is_finite and bool(np.isfinite(frames).all())
        with np.errstate(invalid="ignore"):
            self._add(frames)

    def _add(self, frames: Vectors) -> None:
        self._sampled.append(frames[(-self.count) % self._stride :: self._stride].copy())  # a view would keep them all
        merged, shift = self.count + len(frames), frames.mean(axis=0) - self._mean
        self._squares += frames.var(axis=0) * len(frames) + shift**2 * self.count * len(frames) / merged
        self._mean, self.count = self._mean + shift * len(frames) / merged, merged
        self._widen(frames)

    def _widen(self, frames: Vectors) -> None:
        """A value that is neither extreme, or an extreme that is one no longer, is a third value."""
        seen = frames if self.count == len(frames) else np.vstack([frames, self._minimum, self._maximum])
        self._minimum, self._maximum = seen.min(axis=0), seen.max(axis=0)
        self.is_discrete &= ((seen == self._minimum) | (seen == self._maximum)).all(axis=0)

    def result(self) -> VectorStatistics:
        """Of everything that was added."""
        q01, q99 = np.quantile(np.concatenate(self._sampled), [0.01, 0.99], axis=0)
        std = np.sqrt(self._squares / self.count)
        return VectorStatistics(self.count, self._minimum, self._maximum, self._mean, std, q01, q99)


def weighted_statistics(frames: NDArray[np.floating], weights: Vectors) -> VectorStatistics:  # (n, D), (n,)
    """Statistics of frames that are drawn in proportion to their weights; those of no weight are not among them."""
    drawn = np.flatnonzero(weights > 0)
    shares = weights[drawn] / weights[drawn].sum()
    values = frames[drawn].astype(np.float64)
    mean = shares @ values
    std = np.sqrt(shares @ (values - mean) ** 2)
    step = max(1, -(-len(drawn) // QUANTILE_FRAMES))
    q01, q99 = np.quantile(values[::step], [0.01, 0.99], axis=0, weights=shares[::step], method="inverted_cdf")
    return VectorStatistics(len(drawn), values.min(axis=0), values.max(axis=0), mean, std, q01, q99)


def compute_statistics(index: DatasetIndex, key: str) -> VectorStatistics:
    """Statistics of a vector feature, holding one table file and the frames for the quantiles at most."""
    return measure_features(index, [key])[key].result()


def measure_features(index: DatasetIndex, keys: Sequence[str]) -> dict[str, RunningStatistics]:
    """Every frame of some vector features, in one pass over the tables."""
    running = {key: RunningStatistics(index.feature(key).size, index.num_frames) for key in keys}
    if keys:
        for episode, columns in iterate_episodes(index, keys):
            for key in keys:
                running[key].add(episode_vectors(index, episode, columns, key))
    return running


def episode_vectors(index: DatasetIndex, episode: EpisodeRecord, columns: Columns, key: str) -> Vectors:
    """The frames (length, D) of a vector feature of one episode."""
    frames = columns[key].reshape(episode.length, -1).astype(np.float64)
    size = index.feature(key).size
    if frames.shape[1] != size:
        raise DataError(
            f"{episode.table}: episode {episode.episode_index} has {frames.shape[1]} values in {key!r}, "
            f"meta/info.json says {size}"
        )
    return frames
