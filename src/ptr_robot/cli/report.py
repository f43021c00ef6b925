"""``ptr report DATASET``: the page on a dataset: which episodes hurt, where in them, why, and what to type now."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptr_robot.cli.flags import parse_flags
from ptr_robot.errors import ConfigError

if TYPE_CHECKING:
    from ptr_robot.audit.report import WrittenReport


@dataclass(frozen=True)
class ReportFlags:
    """Write one HTML file that shows a dataset and its scores: ptr report DATASET."""

    dataset: str = ""  # folder (v2.1 or v3.0) or hub id; may be given as a bare word
    output_dir: str | None = None  # where scores and report are; default: outputs/score/<dataset's name>
    run: str | None = None  # a training run on this dataset, to compare with
    camera: str | None = None  # which camera's pictures; default: the first
    state_key: str = "observation.state"  # the feature that holds the states
    action_key: str = "action"  # the feature that holds the actions
    chunk_length: int = 16  # frames between the pictures of an episode
    max_megabytes: float = 16.0  # of pictures in the page


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    written = make_report(parse_flags(ReportFlags, arguments, positional=("dataset",)))
    sys.stdout.write(f"open {written.path} ({written.megabytes:.1f} MB)\n")
    return 0


def make_report(flags: ReportFlags) -> WrittenReport:
    """Score where there are no scores yet, then write the page."""
    if not flags.dataset:
        raise ConfigError("the dataset is missing: ptr report DATASET")
    if flags.chunk_length < 1 or flags.max_megabytes < 0:
        raise ConfigError("chunk_length must be at least 1 and max_megabytes 0 or more")
    from rich.console import Console

    from ptr_robot.audit.page.build import PageSettings
    from ptr_robot.audit.report import write_report
    from ptr_robot.audit.score_files import SUMMARY_FILE, read_scores, scores_folder
    from ptr_robot.cli import score
    from ptr_robot.data.lerobot.index import find_folder, open_index
    from ptr_robot.progress import counting

    root = find_folder(flags.dataset)
    keys = (flags.state_key, flags.action_key)
    index = open_index(root, skip_bad_episodes=True, camera_keys=(), vector_keys=keys)
    folder = scores_folder(root, flags.output_dir)
    if not (folder / SUMMARY_FILE).is_file():
        score.main([str(root), f"--output_dir={folder}", f"--action_key={flags.action_key}"])
    scores = read_scores(folder)
    settings = PageSettings(
        state_key=flags.state_key,
        action_key=flags.action_key,
        camera_key=flags.camera,
        chunk_length=flags.chunk_length,
        max_megabytes=flags.max_megabytes,
    )
    run = Path(flags.run).expanduser() if flags.run else None
    with counting("drawing", len(index.episodes), Console(stderr=True)) as advance:
        return write_report(index, scores, folder, settings=settings, run=run, on_episode=lambda: advance(""))
