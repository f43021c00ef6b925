"""The score of ``ptr score`` as an episode scorer, for studies and whoever asks the registry."""

from __future__ import annotations

import numpy as np

from ptr_robot.method.scoring.quality import QUALITY_VERSION, QualityConfig, assess
from ptr_robot.method.scoring.recordings import Recording, Recordings
from ptr_robot.method.scoring.verdicts import decide
from ptr_robot.scheduling import one_thread
from ptr_robot.scorers.base import EpisodeScore, EpisodeScorer, Report
from ptr_robot.scorers.registry import register_scorer
from ptr_robot.scorers.tracks import EpisodeSet


@register_scorer
class QualityScorer(EpisodeScorer):
    """Evidence of many channels, calibrated within tasks and combined; with weights and corrected instructions."""

    name = "quality"
    title = "ptr score"
    version = f"quality {QUALITY_VERSION}"

    def __init__(self, config: QualityConfig | None = None) -> None:
        self.config = QualityConfig() if config is None else config

    def score(self, episodes: EpisodeSet, report: Report | None = None) -> list[EpisodeScore]:
        """Minus the evidence against each episode, in nats."""
        names = sorted({track.task for track in episodes.tracks})
        numbers = {name: number for number, name in enumerate(names)}
        values = np.concatenate([track.actions[:: max(1, track.num_frames // 64)] for track in episodes.tracks])
        is_smooth = np.array([len(np.unique(column)) > 2 for column in values.T], dtype=np.bool_)
        recordings = Recordings(
            tuple(Recording(track.states, track.actions, numbers[track.task]) for track in episodes.tracks),
            episodes.fps,
            episodes.chunk_length,
            is_smooth=is_smooth,
        )
        settings = QualityConfig(
            max_false_exclusions=self.config.max_false_exclusions,
            num_seeds=self.config.num_seeds,
            num_folds=self.config.num_folds,
            chunk_length=episodes.chunk_length,
            seed=episodes.seed,
        )
        with one_thread():
            quality = assess(recordings, settings, report)
        return [
            EpisodeScore(
                track.episode_index,
                track.task,
                -verdict.evidence,
                verdict.weight,
                None if verdict.corrected_instruction is None else names[verdict.corrected_instruction],
            )
            for track, verdict in zip(episodes.tracks, decide(quality, names), strict=True)
        ]
