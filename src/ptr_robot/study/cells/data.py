"""What a cell trains on: which episodes of which datasets, and how much each counts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptr_robot.data.config import SourceConfig
from ptr_robot.data.ground_truth import EpisodeTruth, read_ground_truth
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.errors import DataError
from ptr_robot.files import atomic_file
from ptr_robot.study.cells.data_jobs import DatasetJob
from ptr_robot.study.cells.judgement import Suspicion, episode_weights, kept_episodes
from ptr_robot.study.cells.rule_job import RuleJob
from ptr_robot.study.cells.scored_episode import ScoredEpisode, fault_kinds_of, training_scores
from ptr_robot.study.spec.definition import EvaluationSettings
from ptr_robot.study.spec.method_row import TRUTH, MethodRow
from ptr_robot.train.methods.registry import training_method

Suspicions = dict[str, list[Suspicion]]  # by rule


@dataclass(frozen=True)
class CellSource:
    """One dataset of a cell, with the rules that its method asks."""

    dataset: DatasetJob
    tasks: tuple[str, ...]  # none where nothing is evaluated on its robot
    evaluation: EvaluationSettings
    rules: tuple[RuleJob, ...] = ()
    robot: str | None = None
    share: float | None = None  # of the samples of a cell with several sources; None: that of its segments


@dataclass(frozen=True)
class PreparedSource:
    """A dataset with what its method decided about its episodes before training."""

    source: CellSource
    truths: dict[int, EpisodeTruth] | None  # None: nobody knows
    tasks: dict[int, str]  # as the dataset says
    scores: dict[int, float]  # by a rule; empty where the method has none
    kept: list[int] | None  # None: all
    weights: dict[int, float] | None  # None: all alike
    weights_file: Path | None

    def fields(self) -> dict[str, Any]:
        """The dataset in the words of ``ptr train``."""
        fields = {**self.source.dataset.source_fields(self.source.robot), "episodes": self.kept}
        if self.source.share is not None:
            fields["weight"] = self.source.share
        if self.weights_file is not None:
            fields["episode_weights"] = str(self.weights_file)
        return fields

    @property
    def faults(self) -> dict[int, tuple[str, ...] | None]:
        """What is known of every episode."""
        if self.truths is None:
            return dict.fromkeys(self.tasks)
        return {number: fault_kinds_of(truth) for number, truth in self.truths.items()}

    @property
    def num_training_episodes(self) -> int:
        """Episodes that count at all."""
        numbers = self.tasks if self.kept is None else self.kept
        return sum(1 for number in numbers if self.weights is None or self.weights[number] > 0)

    def decided_weight(self, episode_index: int) -> float | None:
        """The weight before training: of a filter 1 or 0, of a weighting its own; None where nothing was decided."""
        if self.kept is not None:
            return float(episode_index in self.kept)
        return None if self.weights is None else self.weights[episode_index]


@dataclass(frozen=True)
class CellData:
    """All sources of a cell."""

    sources: tuple[PreparedSource, ...]

    @staticmethod
    def prepare(sources: tuple[CellSource, ...], row: MethodRow, weights_folder: Path) -> CellData:
        """Apply the method's filter and weighting to each source by itself."""
        return CellData(
            tuple(
                _prepare(source, row, weights_folder / f"source-{number}.json") for number, source in enumerate(sources)
            )
        )

    def dataset_fields(self) -> dict[str, Any]:
        """One dataset by its own fields, several as a mixture."""
        if len(self.sources) == 1:
            return self.sources[0].fields()
        return {"sources": [SourceConfig(**source.fields()) for source in self.sources]}

    def num_training_episodes(self, scored: Sequence[ScoredEpisode], row: MethodRow) -> int:
        """Episodes that count at all, of all sources; screening decides after the data was prepared."""
        if training_method(row.method).leaves_out_episodes:
            return sum(episode.weight is None or episode.weight > 0 for episode in scored)
        return sum(source.num_training_episodes for source in self.sources)

    def scored_episodes(self, run: Path, row: MethodRow) -> tuple[ScoredEpisode, ...]:
        """Every episode with what the training thought of it, or else what was decided before."""
        found = training_scores(run) if row.weighs_itself else {}
        scored = []
        for number, source in enumerate(self.sources):
            for episode, faults in source.faults.items():
                score, weight = found.get((number, episode), (None, None))
                score = source.scores.get(episode) if score is None else score
                weight = source.decided_weight(episode) if weight is None else weight
                scored.append(ScoredEpisode(number, episode, source.tasks[episode], faults, score, weight))
        return tuple(scored)


def _prepare(source: CellSource, row: MethodRow, weights_file: Path) -> PreparedSource:
    folder = source.dataset.output
    truths = _truths(source.dataset)
    index = open_index(folder, camera_keys=(), vector_keys=(source.dataset.state_key, "action"))
    tasks = {episode.episode_index: episode.tasks[0] for episode in index.episodes}
    suspicions = {rule.rule: rule.suspicions() for rule in source.rules}
    kept = _kept(row, suspicions, truths)
    if kept == []:
        raise DataError(f"{row.name}: no episode of {folder} is left; the setting has no good episode")
    weights = _weights(row, suspicions, truths)
    if weights is not None:
        with atomic_file(weights_file) as file:
            file.write((json.dumps(weights) + "\n").encode())
    scores = _scores(next(iter(suspicions.values()), []))
    return PreparedSource(source, truths, tasks, scores, kept, weights, weights_file if weights else None)


def _truths(dataset: DatasetJob) -> dict[int, EpisodeTruth] | None:
    """Of demonstrations all is known, of what was recorded elsewhere what was done to it here."""
    if not dataset.has_truth:
        return None
    truths = read_ground_truth(dataset.output)
    if truths is None:
        raise DataError(f"{dataset.output} has no ground truth; remove the folder and run again")
    return truths


def _kept(row: MethodRow, suspicions: Suspicions, truths: dict[int, EpisodeTruth] | None) -> list[int] | None:
    """The episodes that its filter lets stay; None: all, also where it asks for a truth that nobody knows."""
    if row.filter is None or (row.filter.by == TRUTH and truths is None):
        return None
    return kept_episodes(row.filter, suspicions.get(row.filter.by, []), truths or {})


def _weights(row: MethodRow, suspicions: Suspicions, truths: dict[int, EpisodeTruth] | None) -> dict[int, float] | None:
    """A weight for each episode; None: all alike, also where it asks for a truth that nobody knows."""
    if row.weighting is None or (row.weighting.by == TRUTH and truths is None):
        return None
    return episode_weights(row.weighting, suspicions.get(row.weighting.by, []), truths or {})


def _scores(suspicions: list[Suspicion]) -> dict[int, float]:
    """Scores are better the higher they are, suspicions worse; an episode without one has no score."""
    return {s.episode_index: -s.value for s in suspicions if not math.isnan(s.value)}
