"""``ptr score DATASET``: which episodes hurt, how sure that is, and why; without any training."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ptr_robot.audit.scoring import ScoreSettings
from ptr_robot.cli.flags import parse_flags
from ptr_robot.errors import ConfigError
from ptr_robot.files import open_own

if TYPE_CHECKING:
    from ptr_robot.data.lerobot.contents import DatasetIndex

LOG_FILE = "ptr_score.log"


@dataclass(frozen=True)
class ScoreFlags(ScoreSettings):
    """Score every episode of a LeRobot dataset without training: ptr score DATASET."""

    # Folder (v2.1 or v3.0) or hub id; may be given as a bare word.
    dataset: str = ""
    # Where the scores go; by default outputs/score/<dataset's name>.
    output_dir: str | None = None


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    flags = parse_flags(ScoreFlags, arguments, positional=("dataset",))
    if not flags.dataset:
        raise ConfigError("the dataset is missing: ptr score DATASET")
    from ptr_robot.audit.score_files import scores_folder
    from ptr_robot.audit.scoring import check_settings
    from ptr_robot.audit.shared_reading import read_together
    from ptr_robot.data.lerobot.index import find_folder
    from ptr_robot.train.processes import check_launcher, launched_processes

    settings = ScoreSettings(**{e.name: getattr(flags, e.name) for e in dataclasses.fields(ScoreSettings)})
    check_settings(settings)
    check_launcher()
    root = find_folder(flags.dataset)
    index = _open(root, settings)
    folder = scores_folder(root, flags.output_dir)
    has_others = launched_processes() > 1
    if has_others and os.environ["RANK"] != "0":
        read_together(index, settings)
        return 0
    _score(index, settings, folder, has_others=has_others)
    return 0


def _open(root: Path, settings: ScoreSettings) -> DatasetIndex:
    from ptr_robot.data.lerobot.index import open_index
    from ptr_robot.scorers.recordings import state_keys_of

    named = settings.state_keys or ["observation.state", "observation.environment_state"]
    cameras = () if settings.vision == "none" else settings.image_keys or None
    index = open_index(root, skip_bad_episodes=True, camera_keys=cameras, vector_keys=(*named, settings.action_key))
    state_keys_of(index, settings.state_keys)
    return index


def _score(index: DatasetIndex, settings: ScoreSettings, folder: Path, *, has_others: bool) -> None:
    from ptr_robot.audit.score_files import write_scores
    from ptr_robot.audit.scoring import score_dataset
    from ptr_robot.audit.shared_reading import read_together
    from ptr_robot.cli.score_page import print_summary
    from ptr_robot.files import process_lock

    started = time.monotonic()
    with process_lock(folder / LOG_FILE, wait=False) as is_my_turn:
        if not is_my_turn:
            raise ConfigError(f"{folder}: another ptr score writes here; wait for it, or give another --output_dir")
        with ScoringProgress(folder / LOG_FILE, settings) as report:
            if has_others:
                read_together(index, settings, report)
            scores = score_dataset(index, settings, report)
        write_scores(folder, scores)
    print_summary(scores, folder, time.monotonic() - started)


class ScoringProgress:
    """How far the work is and how long it will take: a bar in a terminal, lines in a log, both in the log file."""

    def __init__(self, log: Path, settings: ScoreSettings) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._log_path = log
        looks = settings.vision != "none"
        self._stages = 1 + settings.num_seeds + settings.check * (1 + looks) + looks
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("scoring", total=float(self._stages))
        self._name, self._done, self._started = "", -1, time.monotonic()

    def __enter__(self) -> ScoringProgress:
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        self._log = open_own(self._log_path, "w")
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()
        self._log.write("done\n" if error[0] is None else "interrupted: run the same command again\n")
        self._log.close()

    def __call__(self, name: str, share: float) -> None:
        """``name`` is under way, and ``share`` of it is done."""
        if name != self._name:
            self._name = name
            self._done += 1
            self._say(name)
        self._bar.update(self._task, description=name, completed=self._done + share)

    def _say(self, name: str) -> None:
        passed = time.monotonic() - self._started
        left = passed / self._done * (self._stages - self._done) if self._done else None
        line = f"{name} ({self._done + 1} of {self._stages}), {passed:.0f} s passed"
        line += "" if left is None else f", about {left:.0f} s left"
        self._log.write(line + "\n")
        self._log.flush()
        if not self._console.is_terminal:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
