"""How long an episode takes, against others of its task: cut off, or left running."""

from __future__ import annotations

import math

import numpy as np

from ptr_robot.method.scoring.channels.base import Channel, FittedChannel, Measurement
from ptr_robot.method.scoring.recordings import FEWEST_OF_A_TASK, Recording, Recordings


class Duration(Channel):
    """Much shorter or much longer than the others."""

    name = "duration"
    reason = "takes another time than other episodes of its task"
    is_contextual = True
    floor = 0.1

    def fit(self, recordings: Recordings, seed: int) -> FittedChannel | None:  # noqa: ARG002
        """None where every task has too few episodes."""
        logs: dict[int, list[float]] = {}
        for episode in recordings.episodes:
            logs.setdefault(episode.task, []).append(math.log(episode.num_frames))
        usual = {task: float(np.median(own)) for task, own in logs.items() if len(own) >= FEWEST_OF_A_TASK}
        return _FittedDuration(usual) if usual else None


class _FittedDuration(FittedChannel):
    def __init__(self, usual: dict[int, float]) -> None:
        self.usual = usual

    def measure(self, episode: Recording) -> Measurement:
        """How many times as long as usual, or as short, as a logarithm."""
        if episode.task not in self.usual:
            return Measurement(float("nan"))
        ratio = float(np.log(episode.num_frames) - self.usual[episode.task])
        word = "longer" if ratio > 0 else "shorter"
        times = np.exp(abs(ratio))
        return Measurement(abs(ratio), note=f"is {times:.1f} times {word} than usual" if times >= 1.2 else "")
