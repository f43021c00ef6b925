"""What an episode scorer is: the episodes of a dataset in, one row an episode out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ptr_robot.errors import DataError
from ptr_robot.scorers.tracks import EpisodeSet

Report = Callable[[str, float], None]  # what is being done, and which share of it is done


@dataclass(frozen=True)
class EpisodeScore:
    """What a scorer says of one episode."""

    episode_index: int
    task: str  # the instruction that the dataset gives it
    score: float  # higher is better; NaN: the scorer cannot judge this episode
    weight: float | None = None  # how much it should count in training; None: the scorer only ranks
    corrected_instruction: str | None = None  # another instruction that fits better


class EpisodeScorer(ABC):
    """Scores every episode of a dataset without labels; registered by name in ``scorers.registry``.

    A scorer is deterministic: equal episodes, chunk length and seed give equal rows, in the episodes' order.
    """

    name: ClassVar[str]  # as flags and study rows spell it
    title: ClassVar[str]  # as tables spell it
    version: ClassVar[str] = "1"  # raised where equal data come to be scored otherwise

    @abstractmethod
    def score(self, episodes: EpisodeSet, report: Report | None = None) -> list[EpisodeScore]:
        """One row an episode, in order."""


class SuspicionRule(EpisodeScorer):
    """A scorer whose own measure is higher for worse episodes."""

    @abstractmethod
    def suspicions(self, episodes: EpisodeSet) -> Sequence[float]:
        """One value an episode, higher is worse; NaN where it cannot be judged."""

    def score(self, episodes: EpisodeSet, report: Report | None = None) -> list[EpisodeScore]:  # noqa: ARG002
        """The negated suspicions."""
        values = self.suspicions(episodes)
        if len(values) != len(episodes.tracks):
            raise DataError(
                f"the scorer {self.name!r} gave {len(values)} values for {len(episodes.tracks)} episodes; "
                "a scorer gives one for each"
            )
        return [
            EpisodeScore(track.episode_index, track.task, -float(value))
            for track, value in zip(episodes.tracks, values, strict=True)
        ]
