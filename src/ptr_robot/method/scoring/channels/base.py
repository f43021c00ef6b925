"""What a channel is: fitted to a dataset once, it measures any episode of it, or an altered copy of one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.recordings import Recording, Recordings

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Measurement:
    """What a channel found in one episode; higher is worse."""

    value: float  # NaN: the episode is too short to be measured
    frames: Values | None = None  # (T,) the same by frame, where it can be said
    note: str = ""  # what to tell a person, where the channel has numbers of its own


class FittedChannel(ABC):
    """A channel that knows the dataset."""

    @abstractmethod
    def measure(self, episode: Recording) -> Measurement:
        """One episode, by models that were fitted without its fold."""


class Channel(ABC):
    """One kind of evidence."""

    name: ClassVar[str]
    reason: ClassVar[str]  # in words, of an episode that it speaks against
    is_contextual: ClassVar[bool] = False  # compares with other episodes: a rare situation looks wrong to it too
    is_drawn: ClassVar[bool] = False  # depends on the seed of folds and features
    floor: ClassVar[float] = 0.05  # differences below this are no evidence, however alike the episodes are

    @abstractmethod
    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:
        """None where the channel knows nothing in this dataset."""


class PlainChannel(Channel, FittedChannel):
    """A channel that looks at one episode at a time and needs no fitting beyond a few numbers."""


def spread_to_frames(rows: NDArray[np.int64], values: Values, num_frames: int) -> Values:  # (n,), (n,) -> (T,)
    """Values of some frames for all of them, in proportion to the distance from the nearest two."""
    if not len(rows):
        return np.zeros(num_frames)
    spread: Values = np.interp(np.arange(num_frames), rows, values)
    return spread


def moving_average(values: NDArray[np.floating], window: int) -> Values:  # (T, D) -> (T, D)
    """Centred, over ``window`` frames; at the ends over those that there are."""
    num_frames = len(values)
    half = max(0, min(window // 2, num_frames - 1))
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0, dtype=np.float64)])
    places = np.arange(num_frames)
    first, end = np.maximum(places - half, 0), np.minimum(places + half + 1, num_frames)
    average: Values = (sums[end] - sums[first]) / (end - first)[:, None]
    return average
