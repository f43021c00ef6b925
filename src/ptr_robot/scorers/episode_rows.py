"""``ptr_episodes.parquet``, the table of ``ptr score`` with one row an episode: what a row holds, and how it is read.

Scores and evidence are calibrated values between 0 and 1: the share of good episodes of the task that look at least as
bad. 1 is as usual, 0 is like no good episode; a channel that knows nothing has no value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.errors import DataError

EPISODES_FILE = "ptr_episodes.parquet"
VERDICTS = ("keep", "flag", "drop")
EVIDENCE = "evidence_"  # before a channel's name
TOTAL_FRAMES = b"ptr_total_frames"  # in the file's metadata: by it a file of another dataset is told
_COLUMNS = ("episode_index", "score", "score_low", "score_high", "weight", "verdict", "reason", "corrected_instruction")


@dataclass(frozen=True)
class EpisodeRow:
    """What is known of one episode."""

    episode_index: int
    score: float  # 0 to 1; NaN: it could not be scored
    low: float
    high: float
    weight: float
    verdict: str
    reason: str  # in words; empty where nothing stands out
    corrected_instruction: str | None = None
    weight_if_corrected: float | None = None  # its weight under that instruction
    evidence: Mapping[str, float] = field(default_factory=dict)  # by channel, 0 to 1


@dataclass(frozen=True)
class EpisodeTable:
    """The whole file."""

    rows: Mapping[int, EpisodeRow]  # by episode index
    total_frames: int | None = None  # of the dataset that was scored; None: the file does not say


def read_episode_table(file: Path) -> EpisodeTable:
    """Read the file; a damaged or foreign one is named."""
    if not file.is_file():
        raise DataError(f"{file}: no such file; score the dataset first: ptr score DATASET")
    table = read_parquet(file, None)
    if missing := [name for name in _COLUMNS if name not in table.column_names]:
        raise DataError(f"{file} has no column {missing[0]!r}; it is not a file of ptr score, or a damaged one")
    try:
        rows = {int(row["episode_index"]): _row(row) for row in table.to_pylist()}
        if len(rows) != table.num_rows:
            raise ValueError("an episode has two rows")
        said = (table.schema.metadata or {}).get(TOTAL_FRAMES)
        return EpisodeTable(rows, None if said is None else int(said))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f"{file}: the scores are damaged ({error}); score the dataset again") from error


def _row(row: Mapping[str, Any]) -> EpisodeRow:
    if row["verdict"] not in VERDICTS:
        raise ValueError(f"verdict {row['verdict']!r}")
    corrected, mended = row["corrected_instruction"], row.get("weight_if_corrected")
    if not (corrected is None or isinstance(corrected, str)):
        raise ValueError(f"instruction {corrected!r}")
    return EpisodeRow(
        episode_index=int(row["episode_index"]),
        score=_number(row["score"]),
        low=_number(row["score_low"]),
        high=_number(row["score_high"]),
        weight=_weight(row["weight"]),
        verdict=row["verdict"],
        reason=str(row["reason"] or ""),
        corrected_instruction=corrected,
        weight_if_corrected=None if mended is None else _weight(mended),
        evidence={
            name.removeprefix(EVIDENCE): _number(value) for name, value in row.items() if name.startswith(EVIDENCE)
        },
    )


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _weight(value: Any) -> float:
    if not 0 <= float(value) <= 1:
        raise ValueError(f"weight {value}")
    return float(value)
