"""The files that ``ptr score`` leaves: one row an episode, one row a frame, and a summary."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.errors import DataError, require
from ptr_robot.files import atomic_file
from ptr_robot.scorers.episode_rows import EPISODES_FILE, EVIDENCE, TOTAL_FRAMES, EpisodeRow, read_episode_table
from ptr_robot.text_files import read_json

FRAMES_FILE = "ptr_frames.parquet"
SUMMARY_FILE = "ptr_score.json"
FORMAT = 1


def scores_folder(dataset: Path, named: str | None = None) -> Path:
    """Where the scores of a dataset are: in the folder that was named, or in a place of their own."""
    return Path(named or Path("outputs") / "score" / dataset.resolve().name).expanduser()


@dataclass(frozen=True)
class FrameScores:
    """One value a frame of every scored episode, episode by episode."""

    index: NDArray[np.int64]  # (N,) global
    episode_index: NDArray[np.int64]  # (N,) ascending
    frame_index: NDArray[np.int64]  # (N,)
    weight: NDArray[np.float32]  # (N,)
    evidence: Mapping[str, NDArray[np.float32]]  # by channel: (N,), NaN where it has none

    def __post_init__(self) -> None:
        if (np.diff(self.episode_index) < 0).any():
            raise ValueError("the frames are not in the order of their episodes")


@dataclass(frozen=True)
class Scores:
    """Everything that a scoring found."""

    rows: Mapping[int, EpisodeRow]  # by episode index
    frames: FrameScores
    channels: Mapping[str, str]  # name to what it looks at, in words
    statements: Sequence[str] = ()  # what it expects to have got wrong, and other things to know
    checks: Sequence[Mapping[str, Any]] = ()  # one row a kind of injected fault
    settings: Mapping[str, Any] = field(default_factory=dict)
    dataset: Mapping[str, Any] = field(default_factory=dict)  # which dataset it was: place, episodes, frames

    def row(self, episode_index: int) -> EpisodeRow:
        """The episode's row; an episode without one was recorded after the scoring, or is of another dataset."""
        if episode_index not in self.rows:
            raise DataError(f"episode {episode_index} has no score; score the dataset again: ptr score DATASET")
        return self.rows[episode_index]

    def timelines(self, episode_index: int, length: int) -> dict[str, NDArray[np.float32]]:
        """Each channel's evidence over the frames of an episode; channels without any are left out."""
        first, last = np.searchsorted(self.frames.episode_index, [episode_index, episode_index + 1])
        chosen = slice(int(first), int(last))
        places = self.frames.frame_index[chosen]
        inside = (places >= 0) & (places < length)
        found = {}
        for name, values in self.frames.evidence.items():
            trace: NDArray[np.float32] = np.full(length, np.nan, dtype=np.float32)
            trace[places[inside]] = values[chosen][inside]
            if np.isfinite(trace).any():
                found[name] = trace
        return found


def write_scores(folder: Path, scores: Scores) -> None:
    """Write the three files, the summary last: where it is, the others are whole."""
    pa, parquet = require("pyarrow", "lerobot"), require("pyarrow.parquet", "lerobot")
    rows = [scores.rows[number] for number in sorted(scores.rows)]
    episodes = {
        "episode_index": [row.episode_index for row in rows],
        "score": [row.score for row in rows],
        "score_low": [row.low for row in rows],
        "score_high": [row.high for row in rows],
        "weight": [row.weight for row in rows],
        "verdict": [row.verdict for row in rows],
        "reason": [row.reason for row in rows],
        "corrected_instruction": pa.array([row.corrected_instruction for row in rows], pa.string()),
        "weight_if_corrected": pa.array([row.weight_if_corrected for row in rows], pa.float64()),
        **{EVIDENCE + name: [row.evidence.get(name, math.nan) for row in rows] for name in scores.channels},
    }
    frames = {
        "index": scores.frames.index,
        "weight": scores.frames.weight,
        "episode_index": scores.frames.episode_index,
        "frame_index": scores.frames.frame_index,
        **{EVIDENCE + name: values for name, values in scores.frames.evidence.items()},
    }
    total = scores.dataset.get("total_frames")
    about = {} if total is None else {TOTAL_FRAMES: str(total).encode()}
    tables = {EPISODES_FILE: pa.table(episodes, metadata=about), FRAMES_FILE: pa.table(frames)}
    for name, table in tables.items():
        with atomic_file(folder / name) as file:
            parquet.write_table(table, file)
    summary = {
        "format": FORMAT,
        "dataset": dict(scores.dataset),
        "channels": dict(scores.channels),
        "statements": list(scores.statements),
        "checks": [dict(row) for row in scores.checks],
        "settings": dict(scores.settings),
    }
    with atomic_file(folder / SUMMARY_FILE) as file:
        file.write((json.dumps(summary, indent=2, default=str) + "\n").encode())


def read_scores(folder: Path) -> Scores:
    """Read what ``write_scores`` wrote; a damaged or foreign file is named."""
    summary = _read_summary(folder / SUMMARY_FILE)
    episodes = read_episode_table(folder / EPISODES_FILE)
    frames = _read_table(folder / FRAMES_FILE, ("index", "weight", "episode_index", "frame_index"))
    try:
        columns = {name: frames.column(name).to_numpy() for name in frames.column_names}
        return Scores(
            rows=episodes.rows,
            frames=FrameScores(
                index=_whole_numbers(columns, "index"),
                episode_index=_whole_numbers(columns, "episode_index"),
                frame_index=_whole_numbers(columns, "frame_index"),
                weight=columns["weight"].astype(np.float32),
                evidence={
                    name.removeprefix(EVIDENCE): values.astype(np.float32)
                    for name, values in columns.items()
                    if name.startswith(EVIDENCE)
                },
            ),
            channels={str(name): str(words) for name, words in summary["channels"].items()},
            statements=[str(text) for text in summary["statements"]],
            checks=[dict(check) for check in summary["checks"]],
            settings=dict(summary["settings"]),
            dataset=dict(summary["dataset"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(f"{folder}: the scores are damaged ({error}); score the dataset again") from error


def _whole_numbers(columns: Mapping[str, NDArray[Any]], name: str) -> NDArray[np.int64]:  # (N,)
    """A column of numbers that name something: a missing one is no number, and NumPy would make one of it."""
    values = columns[name]
    if values.dtype.kind not in "iu":
        raise ValueError(f"the column {name!r} holds {values.dtype}, not whole numbers")
    return values.astype(np.int64)


def _read_table(file: Path, columns: Sequence[str]) -> Any:
    if not file.is_file():
        raise DataError(f"{file}: no such file; score the dataset first: ptr score DATASET")
    table = read_parquet(file, None)
    if missing := [name for name in columns if name not in table.column_names]:
        raise DataError(f"{file} has no column {missing[0]!r}; it is not a file of ptr score, or a damaged one")
    return table


def _read_summary(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise DataError(f"{file}: no such file; score the dataset first: ptr score DATASET")
    try:
        summary = read_json(file, "score the dataset again")
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file} cannot be read ({error}); score the dataset again") from error
    wanted = {"dataset", "channels", "statements", "checks", "settings"}
    if not isinstance(summary, dict) or summary.get("format") != FORMAT or not wanted <= summary.keys():
        raise DataError(f"{file} is not a summary of ptr score of format {FORMAT}; score the dataset again")
    return summary
