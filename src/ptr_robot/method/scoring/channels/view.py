"""Do the pictures fit the robot's pose? A camera that was moved, covered, frozen or shifted in time shows here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.channels.base import FittedChannel
from ptr_robot.method.scoring.channels.prediction import Cut, Expectation, PredictionChannel, SquaredError
from ptr_robot.method.scoring.recordings import Array, Recording, Recordings, chunk_starts


class View(PredictionChannel):
    """Pictures that such a pose does not go with."""

    name = "view"
    reason = "pictures do not fit the robot's pose"

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:
        """None where there are no pictures, or where poses say nothing about them."""
        if any(episode.looks is None for episode in recordings.episodes):
            return None
        return super().fit(recordings, seed)

    def cutter(self, recordings: Recordings, most: int) -> Cut:  # noqa: ARG002
        """What a picture looks like, from the state at its frame."""

        def cut(episode: Recording) -> tuple[NDArray[np.int64], Array, Array]:
            places = chunk_starts(-(-episode.num_frames // episode.look_stride), 0, most)
            rows = places * episode.look_stride
            return rows, episode.states[rows], episode.looks_at(rows)

        return cut

    def fitted(self, expectation: Expectation, recordings: Recordings, seed: int) -> FittedChannel:  # noqa: ARG002
        """By squared error."""
        return SquaredError(expectation)
