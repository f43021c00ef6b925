"""What is wrong with which episode of a dataset, where somebody knows: JSON Lines beside the metadata."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

from ptr_robot.data.lerobot.metadata import read_episodes, read_info
from ptr_robot.errors import DataError
from ptr_robot.files import atomic_file

GROUND_TRUTH_FILE = "meta/ptr_ground_truth.jsonl"
_FIELD_TYPES: dict[str, tuple[type, ...]] = {
    "episode_index": (int,),
    "faults": (list,),
    "operator": (str, NoneType),
    "is_success": (bool, NoneType),
    "kind": (str,),
    "first_frame": (int,),
    "last_frame": (int,),
    "details": (dict,),
}


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
    """Write one line an episode into the dataset at ``root``, atomically."""
    path = root / GROUND_TRUTH_FILE
    with atomic_file(path) as file:
        file.write("".join(json.dumps(asdict(truth)) + "\n" for truth in truths).encode())
    return path


def read_ground_truth(root: Path) -> dict[int, EpisodeTruth] | None:
    """The truths by episode index, one for every episode, or None where the dataset at ``root`` has no such file."""
    path = root / GROUND_TRUTH_FILE
    if not path.is_file():
        return None
    truths: dict[int, EpisodeTruth] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            truth = _read_truth(json.loads(line))
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            raise DataError(f"{path}, line {number}: not a ground-truth record ({error}); mend the line") from error
        if truth.episode_index in truths:
            raise DataError(f"{path}, line {number}: names episode {truth.episode_index} again; keep one line of it")
        truths[truth.episode_index] = truth
    _check_episodes(path, truths, {record.episode_index for record in read_episodes(root, read_info(root))})
    return truths


def _read_truth(record: Any) -> EpisodeTruth:
    fields = _checked(record)
    faults = tuple(Fault(**_checked(fault)) for fault in fields.pop("faults", ()))
    return EpisodeTruth(faults=faults, **fields)


def _checked(record: Any) -> dict[str, Any]:
    """The fields of a line or of a fault; one that no record has is left to the record itself to refuse."""
    if not isinstance(record, dict):
        raise TypeError(f"{record!r} is no mapping")
    for name, value in record.items():
        if type(value) not in _FIELD_TYPES.get(name, (type(value),)):
            raise TypeError(f"{name} is {value!r}")
    return record


def _check_episodes(path: Path, truths: Collection[int], known: Collection[int]) -> None:
    """An episode without a line would pass for a good one."""
    for number in truths:
        if number not in known:
            raise DataError(f"{path}: there is no episode {number} in the dataset; remove its line")
    for number in known:
        if number not in truths:
            raise DataError(f"{path}: there is no line for episode {number}; add one, or remove the file")
