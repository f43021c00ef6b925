"""How long an episode takes, against others of its task: cut off, or left running."""

from __future__ import annotations

import math

import numpy as np

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement
from ptr_robot.method.scoring.channels.prediction import Expectation
from ptr_robot.method.scoring.channels.progress import expected_progress, final_progress
from ptr_robot.method.scoring.recordings import FEWEST_OF_A_TASK, Recording, Recordings


class Duration(Channel):
    """Much longer than the others, or shorter and, by the look of its end, not as far as they got."""

    name = "duration"
    reason = "takes another time than other episodes of its task"
    is_contextual = True
    is_drawn = True
    floor = 0.1

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:
        """None where every task has too few episodes."""
        progress = expected_progress(recordings, seed)
        found: dict[int, list[tuple[float, float]]] = {}
        for episode in recordings.episodes:
            reached = float("nan") if progress is None else final_progress(progress, episode)
            found.setdefault(episode.task, []).append((math.log(episode.num_frames), reached))
        usual = {
            task: (float(np.median([length for length, _ in own])), _median([reached for _, reached in own]))
            for task, own in found.items()
            if len(own) >= FEWEST_OF_A_TASK
        }
        return _FittedDuration(usual, progress) if usual else None


def _median(values: list[float]) -> float:
    """Of those that are known."""
    known = [value for value in values if math.isfinite(value)]
    return float(np.median(known)) if known else float("nan")


class _FittedDuration(FittedChannel):
    def __init__(self, usual: dict[int, tuple[float, float]], progress: Expectation | None) -> None:
        self.usual, self.progress = usual, progress  # of each task the log of its length, and how far its episodes get

    def measure(self, episode: Recording) -> Measurement:
        """How many times as long as usual, or as short, as a logarithm; of a short one also the share that is missing.

        An episode that was cut off at half its way is half as long and looks half done: both say the same, and the
        noise of one is not that of the other.
        """
        if episode.task not in self.usual:
            return Measurement(float("nan"))
        length, reached = self.usual[episode.task]
        ratio = math.log(episode.num_frames) - length
        missing = 0.0
        if ratio < 0 and self.progress is not None:
            missing = float(np.nan_to_num(reached - final_progress(self.progress, episode)))
        word, times = ("longer" if ratio > 0 else "shorter"), math.exp(abs(ratio))
        note = f"is {times:.1f} times {word} than usual" if times >= 1.2 else ""
        return Measurement(abs(ratio) + max(missing, 0.0), note=note)
