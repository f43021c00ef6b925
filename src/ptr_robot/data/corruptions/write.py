"""A corrupted copy of a LeRobot dataset with its ground truth, written atomically."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ptr_robot import __version__
from ptr_robot.data.corruptions import edited_statistics
from ptr_robot.data.corruptions.base_dataset import (
    CONVERTED,
    RECIPE_FILE,
    SourceDataset,
    check_source,
    measure_actions,
    open_source,
    read_recipe,
    read_stats,
)
from ptr_robot.data.corruptions.edited_episodes import (
    EpisodeTable,
    Progress,
    write_data,
)
from ptr_robot.data.corruptions.edited_rows import EditContext
from ptr_robot.data.corruptions.kinds import ActionNoise, Corruption
from ptr_robot.data.corruptions.plan import plan_edits
from ptr_robot.data.corruptions.truth import episode_truth
from ptr_robot.data.ground_truth import GROUND_TRUTH_FILE, EpisodeTruth, read_ground_truth, write_ground_truth
from ptr_robot.data.lerobot import compat
from ptr_robot.data.lerobot.contents import DatasetIndex
from ptr_robot.data.lerobot.metadata import video_file
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.files import workspace_beside


@dataclass(frozen=True)
class CorruptionResult:
    """What was written, and what was done to it."""

    root: Path
    truths: tuple[EpisodeTruth, ...]
    num_frames_before: int
    num_frames: int

    def count_by_kind(self) -> Counter[str]:
        """The number of episodes with each kind of fault."""
        return Counter(kind for truth in self.truths for kind in {fault.kind for fault in truth.faults})


def corrupt_dataset(
    source: Path,
    output: Path,
    corruptions: Sequence[Corruption],
    *,
    seed: int = 0,
    action_key: str = "action",
    link_videos: bool = False,
    on_episode: Progress | None = None,
) -> CorruptionResult:
    """Write a copy of the dataset at ``source`` with ``corruptions`` applied, each on its own draw.

    The work happens in a folder beside ``output`` that takes its name at the very end, so an interrupted run
    or a full disk leaves nothing behind. Videos are copied as they are: a truncated episode points at a
    shorter stretch of its video. ``link_videos`` shares the files with the source by hard links instead;
    nothing here ever writes into them, but a tool that changes one in place then changes both.
    """
    _check_folders(source, output)
    adds_noise = any(isinstance(corruption, ActionNoise) for corruption in corruptions)
    index = check_source(source, vector_keys=[action_key] if adds_noise else [])
    deviations = measure_actions(index, action_key) if adds_noise else np.zeros(0)
    with workspace_beside(output) as workspace, _named_for_the_user(source, output, workspace):
        dataset = open_source(source, workspace)
        partial = workspace / "dataset"
        partial.mkdir()
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused with the statistics
            result = _write(dataset, index, partial, corruptions, seed, action_key, deviations, link_videos, on_episode)
        partial.rename(output)
    return dataclasses.replace(result, root=output)


@contextlib.contextmanager
def _named_for_the_user(source: Path, output: Path, workspace: Path) -> Iterator[None]:
    """Complaints about the workspace, as ones about the source that was converted in it, or about the output."""
    try:
        yield
    except DataError as error:
        converted = f"{workspace / CONVERTED}/"
        if converted not in str(error):
            raise
        message = str(error).replace(converted, "")
        raise DataError(f"{source}, as LeRobot converts it to v3.0: {message}") from error
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and output.exists():
            raise DataError(f"{output} was made by another process meanwhile; choose another --output_dir") from error
        reason = error.strerror or str(error)
        raise DataError(f"{output}: cannot be written ({reason}); nothing was left behind") from error


def _check_folders(source: Path, output: Path) -> None:
    if not source.is_dir():
        raise DataError(f"{source}: no such dataset folder")
    if output.exists():
        raise ConfigError(f"{output} exists already; choose another --output_dir or remove it")
    if output.resolve().is_relative_to(source.resolve()):
        raise ConfigError(f"{output} lies inside the dataset {source}; choose an --output_dir outside of it")


def _write(
    dataset: SourceDataset,
    index: DatasetIndex,  # of the original
    root: Path,
    corruptions: Sequence[Corruption],
    seed: int,
    action_key: str,
    deviations: NDArray[np.float64],  # (dimensions,) of the actions
    link_videos: bool,
    on_episode: Progress | None,
) -> CorruptionResult:
    original = index.root
    episodes = EpisodeTable.read(dataset, index)
    planned = episodes.planned()
    edits = plan_edits(planned, corruptions, seed)
    context = EditContext(seed, action_key, deviations, dataset.task_indices)
    _copy_videos(dataset, root, episodes, link_videos or dataset.root != original)
    num_frames = write_data(dataset, root, episodes, edits, context, on_episode)
    episodes.write(root)
    _copy_other_files(dataset, original, root)
    _write_metadata(dataset, root, episodes, num_frames)
    known = read_ground_truth(original) or {}
    truths = tuple(episode_truth(episode, edits[episode.index], known.get(episode.index)) for episode in planned)
    write_ground_truth(root, truths)
    _write_recipe(root, original, corruptions, seed, action_key)
    return CorruptionResult(root, truths, sum(episode.length for episode in planned), num_frames)


def _copy_videos(dataset: SourceDataset, root: Path, episodes: EpisodeTable, link: bool) -> None:
    for row in episodes.by_index.values():
        for key in dataset.keys_of("video"):
            source = video_file(dataset.root, dataset.info, row, key)
            target = video_file(root, dataset.info, row, key)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                (os.link if link else shutil.copyfile)(source, target)


def _copy_other_files(dataset: SourceDataset, original: Path, root: Path) -> None:
    """The remaining metadata (tasks, subtasks), and the licence and card, which conversion drops."""
    rewritten = {"info.json", "stats.json", Path(GROUND_TRUTH_FILE).name, Path(RECIPE_FILE).name}
    for path in dataset.root.glob("meta/*"):
        if path.is_file() and path.name not in rewritten:
            shutil.copyfile(path, root / "meta" / path.name)
    for path in original.iterdir():
        if path.is_file() and path.stem.upper() in ("LICENSE", "LICENCE", "NOTICE", "README"):
            shutil.copyfile(path, root / path.name)


def _write_metadata(dataset: SourceDataset, root: Path, episodes: EpisodeTable, num_frames: int) -> None:
    previous = read_stats(dataset.root)
    compat.write_info({**dataset.info, "total_frames": num_frames}, root)
    by_episode = [edited_statistics.read_episode_stats(row) for row in episodes.by_index.values()]
    stats = edited_statistics.dataset_stats(previous, by_episode, episodes.changed_features)
    for key in sorted(episodes.changed_features):
        if edited_statistics.are_finite(previous.get(key, {})) and not edited_statistics.are_finite(stats[key]):
            raise DataError(
                f"{dataset.root}, {key!r}: the statistics would not be finite; {edited_statistics.TOO_LARGE}"
            )
    compat.write_stats(stats, root)


def _write_recipe(root: Path, original: Path, corruptions: Sequence[Corruption], seed: int, action_key: str) -> None:
    """How to make this dataset again; a source that was itself corrupted passes its own recipe on."""
    step = {
        "source": original.resolve().name,
        "seed": seed,
        "action_key": action_key,
        "corruptions": {type(corruption).__name__: dataclasses.asdict(corruption) for corruption in corruptions},
        "ptr_robot": __version__,
    }
    (root / RECIPE_FILE).write_text(json.dumps([*read_recipe(original), step], indent=4) + "\n")
