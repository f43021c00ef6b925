"""Writes the report on a scored dataset: everything is read, drawn and written in one pass."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ptr_robot.audit.page.build import PageSettings, build_page
from ptr_robot.audit.page.html import render
from ptr_robot.audit.page.similarity import compare_episodes
from ptr_robot.audit.page.training import describe_training
from ptr_robot.audit.score_files import Scores
from ptr_robot.data.inspect.motion import measure_motion
from ptr_robot.data.lerobot.contents import DatasetIndex
from ptr_robot.errors import DataError
from ptr_robot.files import atomic_file
from ptr_robot.scorers.episode_rows import EPISODES_FILE

REPORT_FILE = "ptr_report.html"


@dataclass(frozen=True)
class WrittenReport:
    """Where the report is, and how large."""

    path: Path
    megabytes: float


def write_report(
    index: DatasetIndex,
    scores: Scores,
    folder: Path,
    *,
    settings: PageSettings | None = None,
    run: Path | None = None,  # a training run to compare with
    on_episode: Callable[[], None] = lambda: None,
) -> WrittenReport:
    """Write ``ptr_report.html`` into ``folder``, atomically."""
    check_same_dataset(index, scores)
    kept = {number: row.verdict == "keep" for number, row in scores.rows.items()}
    similarity = compare_episodes(index, measure_motion(index), kept)
    page, details = build_page(index, scores, similarity, settings or PageSettings(), on_episode=on_episode)
    page = dataclasses.replace(
        page,
        training=describe_training(run, scores) if run is not None else None,
        commands=next_commands(index, folder),
    )
    path = folder / REPORT_FILE
    with atomic_file(path) as file:
        for part in render(page, details):
            file.write(part.encode())
    return WrittenReport(path, path.stat().st_size / 1e6)


def check_same_dataset(index: DatasetIndex, scores: Scores) -> None:
    """The scores must be of these very episodes."""
    missing = [episode.episode_index for episode in index.episodes if episode.episode_index not in scores.rows]
    if missing or scores.dataset.get("total_frames", index.total_frames) != index.total_frames:
        raise DataError(
            f"{index.root}: the scores are of another dataset, or of this one before it changed; score it again: "
            "ptr score DATASET"
        )


def next_commands(index: DatasetIndex, folder: Path) -> list[tuple[str, str]]:
    """What to type now, with this dataset's own place."""
    dataset, scores = _quoted(index.root), _quoted(folder)
    return [
        (
            "Write LeRobot's commands, a list of episodes, weights and a filtered copy",
            f"ptr export {dataset} --scores={scores} --output_dir=filtered",
        ),
        (
            "The same, with your marks",
            f"ptr export {dataset} --scores={scores} --verdicts=ptr_verdicts.json --output_dir=filtered",
        ),
        (
            "Train by these verdicts",
            f"ptr train --dataset.repo_id={dataset} --verdicts={_quoted(folder / EPISODES_FILE)}",
        ),
        (
            "The same, with your marks",
            f"ptr train --dataset.repo_id={dataset} --verdicts={_quoted(folder / EPISODES_FILE)},ptr_verdicts.json",
        ),
    ]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
