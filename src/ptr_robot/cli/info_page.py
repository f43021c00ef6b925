"""A dataset's summary as a page for the terminal that reads well from 60 columns on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ptr_robot.data.inspect.summary import DatasetSummary, LengthSummary, SlotSummary, TruthSummary
from ptr_robot.errors import require
from ptr_robot.text_files import printable

BAR = "█"
MAX_TASKS = 20
MAX_UNUSABLE = 10


def print_page(summary: DatasetSummary) -> None:
    """Print the whole page to standard output."""
    console = require("rich.console", "lerobot").Console(highlight=False)
    for title, content in _sections(summary, console.width):
        console.print(_plain(title), style="bold", soft_wrap=True)
        console.print(content)
        console.print()


def _sections(summary: DatasetSummary, width: int) -> Iterable[tuple[str, Any]]:
    yield summary.dataset, _facts(summary)
    yield "Instructions", _tasks(summary.tasks)
    yield "Features", _features(summary)
    yield "Slots of the unified 200-D space", _slots(summary)
    if summary.num_episodes:
        yield "Length of episodes (frames)", _histogram(summary.lengths, width)
    if summary.truth is not None:
        yield "Ground truth (episodes)", _truth(summary.truth, summary.num_episodes)
    if summary.unusable:
        yield "Cannot be used", _unusable(summary.unusable)
    if summary.without_pictures:
        yield "Cannot be used with pictures", _unusable(summary.without_pictures)
    yield "Odd", _oddities(summary)


def _grid(*columns: dict[str, Any]) -> Any:
    grid = require("rich.table", "lerobot").Table.grid(padding=(0, 2))
    for column in columns:
        grid.add_column(**column)
    return grid


def _pairs(rows: Iterable[tuple[str, str]]) -> Any:
    grid = _grid({"style": "dim", "no_wrap": True}, {"overflow": "fold"})
    for name, value in rows:
        grid.add_row(_plain(name), _plain(value))
    return grid


def _plain(text: str) -> Any:
    """Text of the dataset, in which square brackets are no styling and nothing steers the terminal."""
    return require("rich.text", "lerobot").Text(printable(text))


def _facts(summary: DatasetSummary) -> Any:
    futures = summary.futures
    share = futures.num_without_future / max(1, futures.num_chunks)
    missing = (
        f"{futures.num_without_future} of {futures.num_chunks} chunks ({share:.1%}): "
        f"they start in the last {futures.offset_steps} frames of an episode"
    )
    if futures.num_short_episodes:
        missing += f"; {futures.num_short_episodes} episodes hold no other"
    return _pairs(
        [
            ("format", f"LeRobot {summary.version}"),
            ("episodes", f"{summary.num_episodes}"),
            ("frames", f"{summary.num_frames} at {summary.fps:g} fps, {_duration(summary.hours)}"),
            ("robot", _robot(summary)),
            ("no future", missing),
        ]
    )


def _duration(hours: float) -> str:
    if hours >= 1:
        return f"{hours:.1f} h"
    return f"{60 * hours:.1f} min" if 60 * hours >= 1 else f"{3600 * hours:.0f} s"


def _robot(summary: DatasetSummary) -> str:
    name = summary.robot_type or "not stated"
    return name if summary.robot in (None, name) else f"{name} ({summary.robot})"


def _tasks(tasks: dict[str, int]) -> Any:
    grid = _grid({"justify": "right"}, {"overflow": "fold"})
    for task, count in list(tasks.items())[:MAX_TASKS]:
        grid.add_row(str(count), _plain(task))
    if len(tasks) > MAX_TASKS:
        rest = list(tasks.values())[MAX_TASKS:]
        grid.add_row(str(sum(rest)), f"({len(rest)} more instructions)")
    return grid


def _features(summary: DatasetSummary) -> Any:
    grid = _grid({"overflow": "fold"}, {"style": "dim"}, {"no_wrap": True})
    for key, (dtype, shape) in summary.features.items():
        grid.add_row(_plain(key), _plain(dtype), " x ".join(map(str, shape)))
    return grid


def _slots(summary: DatasetSummary) -> Any:
    if summary.robot is None:
        return "unknown robot: write a slot map, see docs/add_a_robot.md, and check it with --robot=FILE.yaml"
    return _pairs((slots.feature, _filled(slots)) for slots in summary.slots)


def _filled(slots: SlotSummary) -> str:
    if slots.mismatch is not None:
        return slots.mismatch
    return f"{slots.size}: " + ", ".join(f"{slot} {size}" for slot, size in slots.filled)


def _histogram(lengths: LengthSummary, width: int) -> Any:
    grid = _grid({"justify": "right", "style": "dim", "no_wrap": True}, {"justify": "right"}, {"no_wrap": True})
    longest = max(20, min(width - 25, 50))
    for place, count in enumerate(lengths.counts):
        first, following = lengths.bin_edges[place : place + 2]
        last = following if place == len(lengths.counts) - 1 else following - 1
        grid.add_row(f"{first}-{last}", str(count), BAR * round(longest * count / max(lengths.counts)))
    grid.add_row("median", f"{lengths.median:g}", "")
    return grid


def _truth(truth: TruthSummary, num_episodes: int) -> Any:
    rows = [("faulty", f"{truth.num_faulty} of {num_episodes}")]
    rows += [(kind.replace("_", " "), str(count)) for kind, count in truth.by_kind.items()]
    rows += [(f"operator {name}", str(count)) for name, count in truth.by_operator.items()]
    if truth.num_successes or truth.num_failures:
        rows.append(("succeeded", f"{truth.num_successes}, failed {truth.num_failures}"))
    return _pairs(rows)


def _unusable(problems: dict[int, str]) -> Any:
    rows = [(f"episode {number}", message) for number, message in list(problems.items())[:MAX_UNUSABLE]]
    if len(problems) > MAX_UNUSABLE:
        rows.append(("", f"and {len(problems) - MAX_UNUSABLE} more episodes"))
    return _pairs(rows)


def _oddities(summary: DatasetSummary) -> Any:
    if not summary.oddities:
        return "nothing was found"
    return _pairs((oddity.kind, oddity.message) for oddity in summary.oddities)
