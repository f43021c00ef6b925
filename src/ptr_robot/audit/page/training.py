"""What a training run adds to the page: its curves, and whether its weights agree with the scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptr_robot.audit.page.contents import numbers, thin
from ptr_robot.audit.score_files import Scores
from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.errors import DataError
from ptr_robot.train.records import read_records

EPISODES_FILE = "episode_scores.parquet"
SHARES = "weight_share/"
GROUPS = {  # by words in the metrics' names, the first that fits
    "Sources": ("source_",),
    "Losses": ("loss", "token_"),
    "Weights": ("weight", "sample_size", "kl", "ratio_low", "ratio_high", "ratio_min", "ratio_max"),
    "Scorer": ("accuracy", "margin", "score", "candidates", "valid_ratio"),
    "Controller": ("temperature", "beta", "hard_ratio"),
}
OTHER = "The run"


def describe_training(run: Path, scores: Scores) -> dict[str, Any]:
    """Curves by what they are about, weights by episode, and a sentence on agreement."""
    records = read_records(run)
    if not records:
        raise DataError(f"{run} has no records of a training; name the folder that ptr train wrote")
    weights = _mean_weights(run / EPISODES_FILE)
    return {
        "name": run.name,
        "steps": [records[0].get("step", 1), records[-1].get("step", len(records))],
        "curves": _curves(records),
        "weight_shares": _weight_shares(records),
        "weights": weights,
        "agreement": _agreement(weights, scores),
    }


def _curves(records: list[dict[str, Any]]) -> dict[str, dict[str, list[float | None]]]:
    """Every number that was recorded more than once, by what it is about."""
    names = sorted({name for record in records for name, value in record.items() if isinstance(value, int | float)})
    groups: dict[str, dict[str, list[float | None]]] = {group: {} for group in (*GROUPS, OTHER)}
    for name in names:
        values = np.array([float(record.get(name, np.nan)) for record in records], dtype=np.float32)
        if name == "step" or name.startswith(SHARES) or np.isfinite(values).sum() < 2:
            continue
        group = next((group for group, marks in GROUPS.items() if any(mark in name for mark in marks)), OTHER)
        groups[group][name] = numbers(thin(values))
    return {group: curves for group, curves in groups.items() if curves}


def _weight_shares(records: list[dict[str, Any]]) -> dict[str, float]:
    """The last record's histogram of weights: the lower edge of each bin, and its share of the batch."""
    last = records[-1]
    return {name.removeprefix(SHARES): float(last[name]) for name in sorted(last) if name.startswith(SHARES)}


def _mean_weights(file: Path) -> dict[int, float]:
    if not file.is_file():
        return {}
    rows = read_parquet(file, ["episode_index", "mean_weight"]).to_pylist()
    return {int(row["episode_index"]): float(row["mean_weight"]) for row in rows if row["mean_weight"] is not None}


def _agreement(weights: Mapping[int, float], scores: Scores) -> str:
    shared = [number for number in weights if number in scores.rows]
    if len(shared) < 3:
        return "The run kept no weights of these episodes to compare."
    own = np.array([weights[number] for number in shared])
    audit = np.array([scores.row(number).score for number in shared])
    if np.ptp(own) == 0 or np.ptp(audit) == 0:
        return "Every episode had the same weight or the same score: there is nothing to compare."
    correlation = float(np.corrcoef(_ranks(own), _ranks(audit))[0, 1])
    return f"Spearman correlation of training weights and scores over {len(shared)} episodes: {correlation:+.2f}."


def _ranks(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Ranks, ties sharing their mean."""
    order = np.sort(values)
    return (np.searchsorted(order, values, "left") + np.searchsorted(order, values, "right")) / 2
