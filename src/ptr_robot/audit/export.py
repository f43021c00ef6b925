"""Acts on scores: LeRobot's commands, a list of episodes, weights, a table, and a filtered copy; never the source.

The copy is made by LeRobot's own tools (``delete_episodes``, ``modify_tasks``), from a converted copy where the dataset
is v2.1.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptr_robot.audit.score_files import Scores
from ptr_robot.data.corruptions.base_dataset import check_source, open_source, silence
from ptr_robot.data.lerobot.contents import DatasetIndex
from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.files import atomic_file
from ptr_robot.scheduling import kept_scheduling
from ptr_robot.scorers.decisions import Decision

COMMANDS_FILE = "lerobot_commands.sh"
EPISODES_FILE = "episodes.json"
WEIGHTS_FILE = "ptr_weights.parquet"
TABLE_FILE = "episodes.csv"
DATASET_FOLDER = "dataset"


@dataclass(frozen=True)
class Export:
    """What was written."""

    folder: Path
    kept: tuple[int, ...]
    dropped: tuple[int, ...]
    renamed: Mapping[int, str]  # corrected instructions of kept episodes
    commands: tuple[str, ...]
    dataset: Path | None  # the filtered copy


def export_dataset(
    index: DatasetIndex, scores: Scores, decisions: Mapping[int, Decision], folder: Path, *, copy_dataset: bool = True
) -> Export:
    """Write everything into a new folder."""
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another --output_dir or remove it")
    if folder.resolve().is_relative_to(index.root.resolve()):
        raise ConfigError(f"{folder} lies inside the dataset {index.root}; choose an --output_dir outside of it")
    present = [episode.episode_index for episode in index.episodes]
    kept = tuple(number for number in present if decisions[number].is_kept)
    if not kept:
        raise DataError(f"{index.root}: every episode would be dropped; overrule some with --verdicts=FILE")
    unusable = tuple(problem.episode_index for problem in index.left_out)
    dropped = tuple(sorted({*(number for number in present if not decisions[number].is_kept), *unusable}))
    renamed = {
        number: str(decisions[number].corrected_instruction)
        for number in kept
        if decisions[number].corrected_instruction is not None
    }
    commands = lerobot_commands(index, kept, dropped, renamed)
    dataset = folder / DATASET_FOLDER if copy_dataset else None
    with atomic_file(folder / EPISODES_FILE) as file:
        file.write((json.dumps(list(kept)) + "\n").encode())
    with atomic_file(folder / COMMANDS_FILE) as file:
        file.write(("\n".join(commands) + "\n").encode())
    with atomic_file(folder / TABLE_FILE) as file:
        file.write(_table(index, scores, decisions).encode())
    _write_weights(folder / WEIGHTS_FILE, scores, decisions)
    if dataset is not None:
        copy_filtered(index, dropped, renamed, dataset)
    return Export(folder, kept, dropped, renamed, commands, dataset)


def lerobot_commands(
    index: DatasetIndex, kept: tuple[int, ...], dropped: tuple[int, ...], renamed: Mapping[int, str]
) -> tuple[str, ...]:
    """As a LeRobot user types them; each works on a v3.0 dataset."""
    name = shlex.quote(index.root.name)
    place = f"--repo_id={name} --root={shlex.quote(str(index.root))}"
    lines = [
        "# Train on the kept episodes, without a copy:",
        f"lerobot-train --dataset.repo_id={name} --dataset.root={shlex.quote(str(index.root))} "
        f"--dataset.episodes='{json.dumps(list(kept))}' --policy.type=act",
    ]
    if dropped:
        lines += [
            "# A copy without the others (lerobot 0.4 writes it to its own place unless --new_repo_id is given):",
            f"lerobot-edit-dataset {place} --new_repo_id={shlex.quote(index.root.name + '_filtered')} "
            f"--operation.type=delete_episodes --operation.episode_indices='{json.dumps(list(dropped))}'",
        ]
    if renamed:
        tasks = json.dumps({str(number): text for number, text in renamed.items()}, ensure_ascii=False)
        lines += [
            "# Corrected instructions (changes the dataset in place: on a copy, before episodes are deleted):",
            f"lerobot-edit-dataset {place} --operation.type=modify_tasks "
            f"--operation.episode_tasks={shlex.quote(tasks)}",
        ]
    return tuple(lines)


def copy_filtered(index: DatasetIndex, dropped: tuple[int, ...], renamed: Mapping[int, str], output: Path) -> None:
    """A v3.0 dataset with the kept episodes and their corrected instructions, which appears when it is whole."""
    check_source(index.root, vector_keys=[])
    output.parent.mkdir(parents=True, exist_ok=True)
    workspace = Path(tempfile.mkdtemp(prefix=f".{output.name}.partial-", dir=output.parent))
    try:
        source = open_source(index.root, workspace).root
        partial = workspace / "filtered"
        with silence():
            _delete(source, dropped, partial)
            places = {number: place for place, number in enumerate(_remaining(index, dropped))}
            if renamed:
                _rename(partial, {places[number]: text for number, text in renamed.items()})
        partial.replace(output)
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error}); nothing was left behind") from error
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _remaining(index: DatasetIndex, dropped: tuple[int, ...]) -> list[int]:
    return [number for number in range(index.total_episodes) if number not in set(dropped)]


def _delete(source: Path, dropped: tuple[int, ...], output: Path) -> None:
    if not dropped:
        shutil.copytree(source, output)
        return
    tools = require("lerobot.datasets.dataset_tools", "lerobot")
    datasets = require("lerobot.datasets.lerobot_dataset", "lerobot")
    opened = datasets.LeRobotDataset(source.name, root=source)
    with kept_scheduling():
        tools.delete_episodes(opened, list(dropped), output_dir=output, repo_id=output.name)


def _rename(root: Path, tasks: dict[int, str]) -> None:
    tools = require("lerobot.datasets.dataset_tools", "lerobot")
    datasets = require("lerobot.datasets.lerobot_dataset", "lerobot")
    tools.modify_tasks(datasets.LeRobotDataset(root.name, root=root), episode_tasks=tasks)


def _write_weights(path: Path, scores: Scores, decisions: Mapping[int, Decision]) -> None:
    """``index, weight``: the scored weight of each frame, times nothing where its episode is dropped."""
    pa, parquet = require("pyarrow", "lerobot"), require("pyarrow.parquet", "lerobot")
    numbers, owners = np.unique(scores.frames.episode_index, return_inverse=True)
    known = [decisions.get(number) for number in numbers.tolist()]  # None: no episode of this dataset
    factors = np.array([entry is not None and entry.is_kept for entry in known], dtype=np.float32)
    overruled = np.array(
        [entry is not None and entry.is_overruled and entry.is_kept for entry in known], dtype=np.bool_
    )
    weights = np.where(overruled[owners], 1.0, scores.frames.weight * factors[owners]).astype(np.float32)
    with atomic_file(path) as file:
        parquet.write_table(pa.table({"index": scores.frames.index, "weight": weights}), file)


def _table(index: DatasetIndex, scores: Scores, decisions: Mapping[int, Decision]) -> str:
    """CSV; a text that a spreadsheet would take for a formula is quoted away."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["episode_index", "task", "verdict", "kept", "score", "weight", "reason", "corrected_instruction"])
    for episode in index.episodes:
        decision, row = decisions[episode.episode_index], scores.row(episode.episode_index)
        cells = [" / ".join(episode.tasks), decision.verdict, str(decision.is_kept).lower(), f"{row.score:.4f}"]
        cells += [f"{decision.weight:.4f}", decision.reason, decision.corrected_instruction or ""]
        writer.writerow([episode.episode_index, *map(_no_formula, cells)])
    return text.getvalue()


def _no_formula(cell: str) -> str:
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
