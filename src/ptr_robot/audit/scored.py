"""The scores of a dataset: read where they are, made where they are not."""

from __future__ import annotations

from pathlib import Path

from ptr_robot.audit.score_files import SUMMARY_FILE, Scores, read_scores
from ptr_robot.errors import DataError


def scores_of(dataset: Path, folder: Path) -> Scores:
    """Those in ``folder``, or new ones, which are left there."""
    if (folder / SUMMARY_FILE).is_file():
        return read_scores(folder)
    raise DataError(f"{folder}: no scores of {dataset} here; score it first: ptr score {dataset}")
