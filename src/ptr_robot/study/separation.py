"""How well a run's weights tell the marked episodes from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptr_robot.data.ground_truth import EpisodeTruth
from ptr_robot.data.metadata import read_parquet
from ptr_robot.errors import DataError, require
from ptr_robot.train.episodes import EPISODE_SCORES_FILE


@dataclass(frozen=True)
class JudgedEpisode:
    """What a run thought of an episode, beside what is known about it."""

    episode_index: int
    task: str
    mean_score: float
    mean_weight: float
    truth: EpisodeTruth

    @property
    def is_faulty(self) -> bool:
        """Whether the episode is marked."""
        return self.truth.is_faulty


def judged_episodes(run: Path, truths: dict[int, EpisodeTruth], tasks: dict[int, str]) -> list[JudgedEpisode]:
    """The run's records with their ground truth; episodes that were never scored are left out."""
    rows = read_parquet(run / EPISODE_SCORES_FILE).to_pylist()
    judged = []
    for row in rows:
        number = int(row["episode_index"])
        if number not in truths:
            raise DataError(
                f"{run / EPISODE_SCORES_FILE}: episode {number} has no ground truth; was it collected here?"
            )
        if row["mean_score"] is not None and row["mean_weight"] is not None:
            judged.append(JudgedEpisode(number, tasks[number], row["mean_score"], row["mean_weight"], truths[number]))
    return judged


def auroc(lower: Sequence[float], higher: Sequence[float]) -> float:
    """The chance that one of ``higher`` exceeds one of ``lower``, a tie counting half; NaN where either is empty."""
    if not lower or not higher:
        return float("nan")
    stats = require("scipy.stats", "sim")
    statistic = stats.mannwhitneyu(higher, lower).statistic
    return float(statistic) / (len(lower) * len(higher))


def weight_auroc(episodes: Sequence[JudgedEpisode]) -> float:
    """Whether good episodes weigh more than marked ones, within tasks: chance is 0.5, perfect is 1.

    Weights differ between tasks for reasons of the task; so each pair that is compared is of one task, and tasks count
    by their number of pairs.
    """
    areas, pairs = [], []
    for task in sorted({episode.task for episode in episodes}):
        marked = [e.mean_weight for e in episodes if e.task == task and e.is_faulty]
        good = [e.mean_weight for e in episodes if e.task == task and not e.is_faulty]
        if marked and good:
            areas.append(auroc(marked, good))
            pairs.append(len(marked) * len(good))
    return float(np.average(areas, weights=pairs)) if areas else float("nan")
