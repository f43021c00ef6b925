"""Episode scorers: what each episode of a dataset is worth, without labels."""

from ptr_robot.scorers.base import EpisodeScore, EpisodeScorer
from ptr_robot.scorers.registry import get_scorer, register_scorer, scorer_names
from ptr_robot.scorers.tracks import EpisodeSet, Track

__all__ = ["EpisodeScore", "EpisodeScorer", "EpisodeSet", "Track", "get_scorer", "register_scorer", "scorer_names"]
