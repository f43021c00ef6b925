"""Audit a dataset: score it, look at it, and act on what was found."""

from ptr_robot.audit.scored import ScoredDataset, score_dataset

__all__ = ["ScoredDataset", "score_dataset"]
