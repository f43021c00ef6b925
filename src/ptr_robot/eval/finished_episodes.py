"""The finished episodes of an evaluation that was stopped, so that the next run goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ptr_robot.errors import DataError
from ptr_robot.eval.results import EpisodeResult
from ptr_robot.eval.rollout_policy import RolloutEpisode
from ptr_robot.files import open_own

FILE = "eval_progress.jsonl"


class FinishedEpisodes:
    """One line an episode, each with the identity of the settings that it was run with."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._path = folder / FILE
        self._identity = identity

    def read(self) -> dict[RolloutEpisode, EpisodeResult]:
        """What was finished with the same settings; a line that a killed process left half is run again."""
        if not self._path.is_file():
            return {}
        found: dict[RolloutEpisode, EpisodeResult] = {}
        for line in self._path.read_text(errors="replace").splitlines():
            try:
                values = json.loads(line)
                identity = values.pop("identity")
                result = EpisodeResult(**values)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
                continue
            has_video = result.video is None or Path(result.video).is_file()
            if identity == self._identity and has_video:
                found[RolloutEpisode(result.task, result.seed, result.initial_state)] = result
        return found

    def add(self, result: EpisodeResult) -> None:
        """Note one more, on a line of its own."""
        try:
            with open_own(self._path, "a") as file:
                file.write(
                    "\n" * self._ends_mid_line() + json.dumps({"identity": self._identity, **asdict(result)}) + "\n"
                )
        except OSError as error:
            raise DataError(f"{self._path} could not be written ({error})") from error

    def remove(self) -> None:
        """Everything is in the results now."""
        self._path.unlink(missing_ok=True)

    def _ends_mid_line(self) -> bool:
        if not self._path.is_file() or self._path.stat().st_size == 0:
            return False
        with self._path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) != b"\n"
