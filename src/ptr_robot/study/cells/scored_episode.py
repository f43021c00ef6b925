"""What a method thought of the episodes that it was given, beside what is known about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ptr_robot.data.ground_truth import EpisodeTruth
from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.errors import DataError
from ptr_robot.train.episode_records import EPISODE_SCORES_FILE


@dataclass(frozen=True)
class ScoredEpisode:
    """What a method thought of a training episode, beside what is known about it; higher is better for both."""

    source: int
    episode_index: int
    task: str  # as the dataset says, which under label noise may be wrong
    faults: tuple[str, ...] | None  # None: nobody knows
    score: float | None = None
    weight: float | None = None

    @property
    def is_faulty(self) -> bool:
        """Whether the episode is marked."""
        return bool(self.faults)

    @property
    def is_good(self) -> bool:
        """Whether it is known to have no fault."""
        return self.faults == ()

    def has(self, kind: str) -> bool:
        """Whether it is marked with that kind of fault."""
        return self.faults is not None and kind in self.faults


def fault_kinds_of(truth: EpisodeTruth) -> tuple[str, ...]:
    """Each kind once, in the order in which they occur."""
    return tuple(dict.fromkeys(fault.kind for fault in truth.faults))


def training_scores(run: Path) -> dict[tuple[int, int], tuple[float | None, float | None]]:
    """Mean score and mean weight by source and episode, as the run recorded them."""
    rows = read_parquet(run / EPISODE_SCORES_FILE).to_pylist()
    return {(row["source_id"], row["episode_index"]): (row["mean_score"], row["mean_weight"]) for row in rows}


def scored_episodes(run: Path, truths: Mapping[int, EpisodeTruth], tasks: Mapping[int, str]) -> list[ScoredEpisode]:
    """The records of a run on one dataset with their ground truth; episodes that were never scored are left out."""
    scored = []
    for (source, number), (score, weight) in training_scores(run).items():
        if number not in truths:
            raise DataError(
                f"{run / EPISODE_SCORES_FILE}: episode {number} has no ground truth; was it collected here?"
            )
        if score is not None and weight is not None:
            kinds = fault_kinds_of(truths[number])
            scored.append(ScoredEpisode(source, number, tasks[number], kinds, score, weight))
    return scored
