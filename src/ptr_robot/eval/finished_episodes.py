"""The finished episodes of an evaluation that was stopped, so that the next run goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from ptr_robot.errors import DataError
from ptr_robot.eval.results import EpisodeResult
from ptr_robot.eval.rollout_policy import RolloutEpisode
from ptr_robot.files import open_own

FILE = "eval_progress.jsonl"


class FinishedEpisodes:
    """One line an episode, each with the identity of the settings that it was run with and the seconds that it took."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._path = folder / FILE
        self._identity = identity
        self._seconds: dict[RolloutEpisode, float] = {}
        self._noted = time.monotonic()  # when the last one was added, or when this run began

    def read(self) -> dict[RolloutEpisode, EpisodeResult]:
        """What was finished with the same settings; a line that a killed process left half is run again."""
        if not self._path.is_file():
            return {}
        found: dict[RolloutEpisode, EpisodeResult] = {}
        for line in self._path.read_text(errors="replace").splitlines():
            try:
                values = json.loads(line)
                identity, seconds = values.pop("identity"), float(values.pop("seconds"))
                result = EpisodeResult(**values)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
                continue
            has_video = result.video is None or Path(result.video).is_file()
            if identity == self._identity and has_video:
                found[_episode_of(result)] = result
                self._seconds[_episode_of(result)] = seconds
        return found

    def seconds(self, results: Iterable[EpisodeResult]) -> float:
        """How long these took in the runs that finished them; what a killed run had begun is left out."""
        return sum(self._seconds[_episode_of(result)] for result in results)

    def add(self, result: EpisodeResult) -> None:
        """Note one more, on a line of its own; its seconds are those since the one before."""
        now = time.monotonic()
        seconds, self._noted = now - self._noted, now
        self._seconds[_episode_of(result)] = seconds
        line = json.dumps({"identity": self._identity, "seconds": seconds, **asdict(result)})
        try:
            with open_own(self._path, "a") as file:
                file.write("\n" * self._ends_mid_line() + line + "\n")
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


def _episode_of(result: EpisodeResult) -> RolloutEpisode:
    return RolloutEpisode(result.task, result.seed, result.initial_state)
