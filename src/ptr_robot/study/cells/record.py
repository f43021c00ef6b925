"""The record of a cell: what one method made of one setting with one seed, as one JSON file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ptr_robot.errors import DataError
from ptr_robot.study.cells.scored_episode import ScoredEpisode
from ptr_robot.study.engine.json_values import write_json
from ptr_robot.text_files import read_json

RECORDS_FOLDER = "records"
DONE, FAILED = "done", "failed"


@dataclass(frozen=True)
class EpisodeOutcome:
    """One evaluation episode."""

    task: str
    seed: int  # of its layout
    is_success: bool
    num_steps: int


@dataclass(frozen=True)
class CellRecord:
    """A finished or failed cell."""

    setting: str
    method: str
    seed: int
    identity: str
    status: str = DONE
    reason: str | None = None
    episodes: tuple[EpisodeOutcome, ...] = ()
    scored_episodes: tuple[ScoredEpisode, ...] = ()
    auroc: dict[str, dict[str, float | None]] = field(default_factory=dict)
    mean_weight: dict[str, float | None] = field(default_factory=dict)
    num_training_episodes: int = 0
    curves: dict[str, list[float | None]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether it has results."""
        return self.status == DONE

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks it was evaluated on."""
        return tuple(dict.fromkeys(episode.task for episode in self.episodes))

    def success_of(self, task: str | None = None) -> float:
        """The rate over a task's episodes, or over all."""
        outcomes = [episode.is_success for episode in self.episodes if task in (None, episode.task)]
        return sum(outcomes) / len(outcomes)

    def as_json(self) -> dict[str, Any]:
        """Plain values, with the summary that a reader looks for first."""
        counts = {
            task: {
                "successes": sum(e.is_success for e in self.episodes if e.task == task),
                "episodes": sum(e.task == task for e in self.episodes),
            }
            for task in self.tasks
        }
        summary = {"success": self.success_of() if self.episodes else None, "success_by_task": counts}
        return {**summary, **asdict(self)}


def record_path(root: Path, setting: str, method: str, seed: int) -> Path:
    """Where a cell's record lies."""
    return root / RECORDS_FOLDER / setting / method / f"{seed}.json"


def write_record(root: Path, record: CellRecord) -> None:
    """Write the record atomically."""
    write_json(record_path(root, record.setting, record.method, record.seed), record.as_json())


def read_record(path: Path) -> CellRecord | None:
    """The record at ``path``, or None where there is none."""
    if not path.is_file():
        return None
    try:
        content = read_json(path, "remove it and run again")
        del content["success"], content["success_by_task"]
        content["episodes"] = tuple(_read_outcome(episode) for episode in content["episodes"])
        scored = content.pop("judged") if "judged" in content else content["scored_episodes"]  # the former: 0.1
        content["scored_episodes"] = tuple(
            ScoredEpisode(**{**episode, "faults": None if episode["faults"] is None else tuple(episode["faults"])})
            for episode in scored
        )
        return CellRecord(**content)
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise DataError(f"{path}: not the record of a cell ({error}); remove it and run again") from error


def _read_outcome(fields: dict[str, Any]) -> EpisodeOutcome:
    """One evaluation episode; version 0.1 called its seed ``layout``."""
    return EpisodeOutcome(**{"seed" if name == "layout" else name: value for name, value in fields.items()})
