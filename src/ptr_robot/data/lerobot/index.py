"""Opens a LeRobot dataset of either version, a folder or a hub id, and checks it before use."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from ptr_robot.data.lerobot.contents import (
    DatasetIndex,
    EpisodeProblem,
    EpisodeRecord,
    Feature,
    VideoSpan,
)
from ptr_robot.data.lerobot.folder import find_folder
from ptr_robot.data.lerobot.metadata import read_episodes, read_features, read_info, read_tasks
from ptr_robot.data.lerobot.rows import locate_rows, read_instructions
from ptr_robot.data.lerobot.usability import find_problems
from ptr_robot.errors import DataError
from ptr_robot.files import refuse_foreign_files

__all__ = ["DatasetIndex", "EpisodeProblem", "EpisodeRecord", "Feature", "VideoSpan", "find_folder", "open_index"]


def open_index(
    dataset: str | Path,
    *,
    root: str | Path | None = None,
    revision: str | None = None,
    episodes: Sequence[int] | None = None,
    skip_bad_episodes: bool = False,
    may_be_empty: bool = False,
    camera_keys: Sequence[str] | None = None,
    vector_keys: Sequence[str] = ("observation.state", "action"),
) -> DatasetIndex:
    """Open a dataset: a local folder (v2.1 or v3.0), or a hub id, fetched as LeRobot does.

    ``root`` is the local folder of a hub id, as in LeRobot. Every episode is checked (files, lengths, rates,
    finite values); the first unusable one is an error, or with ``skip_bad_episodes`` goes to ``left_out``.
    What is not used need not be sound: only the videos of ``camera_keys`` (by default of all cameras) and the
    values of ``vector_keys`` are looked at. ``may_be_empty``: one without a usable episode is opened too.
    """
    folder = find_folder(dataset, root, revision)
    refuse_foreign_files(folder)
    info = read_info(folder)
    records = read_episodes(folder, info)
    index = DatasetIndex(
        root=folder,
        version=info["codebase_version"],
        fps=float(info["fps"]),
        robot_type=info.get("robot_type"),
        features=read_features(info),
        tasks=read_tasks(folder, info["codebase_version"]),
        episodes=tuple(_choose(folder, records, episodes)),
        total_frames=sum(record.length for record in records),
        total_episodes=records[-1].episode_index + 1,
    )
    index, lost = locate_rows(index)
    problems = sorted(
        [*lost, *find_problems(index, vector_keys, camera_keys)], key=lambda problem: problem.episode_index
    )
    if problems and not skip_bad_episodes:
        others = f" ({len(problems) - 1} more episodes have problems)" if len(problems) > 1 else ""
        raise DataError(f"{problems[0].message}; leave such episodes out with --dataset.skip_bad_episodes=true{others}")
    bad = {problem.episode_index for problem in problems}
    sound = tuple(record for record in index.episodes if record.episode_index not in bad)
    if not sound and not may_be_empty:
        raise DataError(f"{folder}: no usable episode is left; the first problem: {problems[0].message}")
    index = dataclasses.replace(index, episodes=sound, left_out=tuple(problems))
    return dataclasses.replace(index, episodes=tuple(read_instructions(index)))


def _choose(root: Path, records: list[EpisodeRecord], wanted: Sequence[int] | None) -> list[EpisodeRecord]:
    if wanted is None:
        return records
    known = {record.episode_index: record for record in records}
    for number in wanted:
        if number not in known:
            raise DataError(f"{root}: there is no episode {number}; it has 0 to {records[-1].episode_index}")
    return [known[number] for number in sorted(set(wanted))]
