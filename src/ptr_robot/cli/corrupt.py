"""``ptr corrupt SOURCE --output_dir=...``: a corrupted copy of a dataset, with the ground truth of what was done."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptr_robot.cli.flags import parse_flags
from ptr_robot.errors import ConfigError, require

if TYPE_CHECKING:
    from ptr_robot.data.corruptions import CorruptionResult


@dataclass(frozen=True)
class CorruptFlags:
    """Write a corrupted copy of a LeRobot dataset: ptr corrupt SOURCE --output_dir=FOLDER --kind=KIND."""

    source: str = ""  # folder (v2.1 or v3.0) or hub id of the dataset; may be given as a bare word
    output_dir: str = ""  # folder of the new dataset (v3.0); must not exist
    kind: str = "combined"  # ani: noise on actions, tt: truncation, ln: wrong instruction, combined: all three
    seed: int = 0  # decides which episodes are hit, and how
    fraction: float | None = None  # share of episodes hit; default: the paper's 0.30 ani, 0.25 tt, 0.20 ln
    sigma: float = 0.1  # ani: strength of the noise
    noise_unit: str = "std"  # ani: sigma is a share of each dimension's std, or (raw) in the units of the actions
    keep_from: float = 0.4  # tt: the smallest share of an episode's frames that stays
    keep_to: float = 0.7  # tt: the largest
    action_key: str = "action"  # the feature that holds the actions
    link_videos: bool = False  # share the video files with the source (hard links) instead of copying them


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    flags = parse_flags(CorruptFlags, arguments, positional=("source",))
    if not flags.source or not flags.output_dir:
        missing = "the source dataset" if not flags.source else "--output_dir"
        raise ConfigError(f"{missing} is missing: ptr corrupt SOURCE --output_dir=FOLDER --kind=combined")
    _check_read(flags)
    from ptr_robot.data.corruptions import LabelNoise, corrupt_dataset, paper_corruptions
    from ptr_robot.data.lerobot.index import find_folder
    from ptr_robot.data.lerobot.metadata import read_info, read_tasks

    source = find_folder(flags.source)
    corruptions = paper_corruptions(
        flags.kind,
        fraction=flags.fraction,
        sigma=flags.sigma,
        noise_unit=flags.noise_unit,
        keep_from=flags.keep_from,
        keep_to=flags.keep_to,
    )
    if flags.kind == "combined" and len(read_tasks(source, read_info(source)["codebase_version"])) < 2:
        corruptions = tuple(one for one in corruptions if not isinstance(one, LabelNoise))
        sys.stderr.write(
            "one instruction in the dataset: ani and tt are done; ln needs a second task to take one from\n"
        )
    progress_module = require("rich.progress", "lerobot")
    console = require("rich.console", "lerobot").Console(stderr=True)
    with progress_module.Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("reading", total=None)
        result = corrupt_dataset(
            source,
            Path(flags.output_dir).expanduser(),
            corruptions,
            seed=flags.seed,
            action_key=flags.action_key,
            link_videos=flags.link_videos,
            on_episode=lambda done, total: progress.update(bar, description="episodes", completed=done, total=total),
        )
    _print_result(result)
    return 0


def _check_read(flags: CorruptFlags) -> None:
    """Refuse a setting of a corruption that is not asked for."""
    for kind, names in (("ani", ("sigma", "noise_unit")), ("tt", ("keep_from", "keep_to"))):
        for name in names:
            if flags.kind not in (kind, "combined") and getattr(flags, name) != getattr(CorruptFlags, name):
                raise ConfigError(
                    f"--{name} belongs to the kind {kind!r} and --kind is {flags.kind!r}; take it out, or give "
                    f"--kind={kind} or combined"
                )


def _print_result(result: CorruptionResult) -> None:
    console: Any = require("rich.console", "lerobot").Console()
    tables = require("rich.table", "lerobot")
    table = tables.Table(box=require("rich.box", "lerobot").SIMPLE_HEAD)
    table.add_column("fault")
    table.add_column("episodes", justify="right")
    table.add_column("which", overflow="fold")
    by_kind: dict[str, list[int]] = {}
    for truth in result.truths:
        for kind in dict.fromkeys(fault.kind for fault in truth.faults):
            by_kind.setdefault(kind, []).append(truth.episode_index)
    for kind, episodes in sorted(by_kind.items()):
        table.add_row(kind.replace("_", " "), str(len(episodes)), _some(episodes))
    clean = [truth.episode_index for truth in result.truths if not truth.is_faulty]
    table.add_row("none", str(len(clean)), _some(clean))
    console.print(table)
    console.print(
        f"{len(result.truths)} episodes, {result.num_frames_before} -> {result.num_frames} frames", style="dim"
    )
    console.print(f"written to {result.root} (ground truth: meta/ptr_ground_truth.jsonl)", soft_wrap=True)


def _some(numbers: Sequence[int], limit: int = 12) -> str:
    shown = ", ".join(map(str, numbers[:limit]))
    return shown if len(numbers) <= limit else f"{shown}, … {len(numbers) - limit} more"
