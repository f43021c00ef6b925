"""What is wrong with which episode of a dataset, where somebody knows: JSON Lines beside the metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ptr_robot.errors import DataError

GROUND_TRUTH_FILE = "meta/ptr_ground_truth.jsonl"


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an episode, and the frames it touches (``last_frame`` inclusive)."""

    kind: str
    first_frame: int
    last_frame: int
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EpisodeTruth:
    """The truth about one episode; an episode without faults is a good one."""

    episode_index: int
    faults: tuple[Fault, ...] = ()
    operator: str | None = None
    is_success: bool | None = None

    @property
    def is_faulty(self) -> bool:
        """Whether anything at all is wrong with the episode."""
        return bool(self.faults)


def write_ground_truth(root: Path, truths: Sequence[EpisodeTruth]) -> Path:
    """Write one line an episode into the dataset at ``root``, whole or not at all."""
    path = root / GROUND_TRUTH_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(asdict(truth)) + "\n" for truth in truths))
    partial.replace(path)
    return path


def read_ground_truth(root: Path) -> dict[int, EpisodeTruth] | None:
    """The truths by episode index, or None where the dataset at ``root`` has none."""
    path = root / GROUND_TRUTH_FILE
    if not path.is_file():
        return None
    truths: dict[int, EpisodeTruth] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            record = json.loads(line)
            faults = tuple(Fault(**fault) for fault in record.pop("faults", ()))
            truth = EpisodeTruth(faults=faults, **record)
        except (ValueError, TypeError) as error:
            raise DataError(f"{path}, line {number}: not a ground-truth record ({error})") from error
        truths[truth.episode_index] = truth
    return truths
