"""What rollouts found: success by episode and by task, with intervals, as one JSON file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from ptr_robot.errors import DataError
from ptr_robot.eval.success_statistics import Interval, wilson_interval
from ptr_robot.files import atomic_file
from ptr_robot.text_files import read_json


class Attempt(Protocol):
    """An episode that ended."""

    @property
    def task(self) -> str: ...

    @property
    def is_success(self) -> bool: ...


@dataclass(frozen=True)
class EpisodeResult:
    """One episode: whether it succeeded, how long it took, and how often the policy looked at an image."""

    task: str
    seed: int
    is_success: bool
    num_steps: int
    num_looks: int
    video: str | None = None
    initial_state: int | None = None  # official, by number; None: the seed drew the layout


@dataclass(frozen=True)
class RolloutResult:
    """All episodes, in the order of tasks and seeds."""

    episodes: tuple[EpisodeResult, ...]

    @property
    def success(self) -> Interval:
        """The success rate over all episodes, with Wilson's interval."""
        return success_rate(self.episodes)

    @property
    def success_by_task(self) -> dict[str, Interval]:
        """The success rate of each task."""
        return success_by_task(self.episodes)

    def as_json(self) -> dict[str, Any]:
        """The summary and every episode, as plain values."""
        return {
            "success": asdict(self.success),
            "success_by_task": {task: asdict(interval) for task, interval in self.success_by_task.items()},
            "num_episodes": len(self.episodes),
            "episodes": [asdict(episode) for episode in self.episodes],
        }


def write_results(path: Path, result: RolloutResult) -> None:
    """Write the JSON file, atomically."""
    with atomic_file(path) as file:
        file.write((json.dumps(result.as_json(), indent=1) + "\n").encode())


def read_results(path: Path) -> RolloutResult:
    """The result that ``write_results`` wrote."""
    try:
        episodes = read_json(path, "run the evaluation again")["episodes"]
        return RolloutResult(tuple(EpisodeResult(**episode) for episode in episodes))
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise DataError(f"{path}: not a file of rollout results ({error})") from error


def success_rate(episodes: Sequence[Attempt]) -> Interval:
    """The success rate of episodes, with Wilson's interval."""
    return wilson_interval(sum(episode.is_success for episode in episodes), len(episodes))


def success_by_task(episodes: Sequence[Attempt]) -> dict[str, Interval]:
    """The success rate of each task, in the order in which they occur."""
    tasks = dict.fromkeys(episode.task for episode in episodes)
    return {task: success_rate([episode for episode in episodes if episode.task == task]) for task in tasks}
