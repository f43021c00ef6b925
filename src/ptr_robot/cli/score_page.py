"""What ``ptr score`` prints: how many episodes are kept, why the others are not, and how far to trust it."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from ptr_robot.audit.page.build import few_episodes
from ptr_robot.audit.score_files import Scores, scores_folder
from ptr_robot.audit.scoring import counts
from ptr_robot.errors import require
from ptr_robot.scorers.episode_rows import EpisodeRow

MOST_NAMED = 12  # episodes that are listed one by one


def print_summary(scores: Scores, folder: Path, seconds: float) -> None:
    """The whole summary to standard output."""
    console = require("rich.console", "lerobot").Console(highlight=False)
    rows = list(scores.rows.values())
    number = counts(scores.rows)
    console.print(
        f"{len(rows)} episodes scored in {seconds:.1f} s: {number['in full']} kept in full, "
        f"{number['weigh less']} weigh less, {number['out']} are out",
        soft_wrap=True,
    )
    for line in (*few_episodes(len(rows)), *_reasons(rows), *_corrected(rows), *scores.statements, *_checks(scores)):
        console.print(_plain(line), soft_wrap=True)
    root = Path(str(scores.dataset["root"]))
    elsewhere = "" if folder == scores_folder(root) else f" --output_dir={shlex.quote(str(folder))}"
    look = f"ptr report {shlex.quote(str(root))}{elsewhere}"
    console.print(_plain(f"written to {folder}; look at them: {look}"), soft_wrap=True)


def _reasons(rows: list[EpisodeRow]) -> list[str]:
    """Dropped and flagged episodes, the worst first, each with its reason."""
    lines = []
    for verdict in ("drop", "flag"):
        chosen = sorted((row for row in rows if row.verdict == verdict), key=lambda row: (row.score, row.episode_index))
        if not chosen:
            continue
        lines.append(f"{verdict}: {len(chosen)}")
        lines += [f"  episode {row.episode_index}: {row.reason}" for row in chosen[:MOST_NAMED]]
        rest = Counter(row.reason.split(",")[0] for row in chosen[MOST_NAMED:])
        lines += [f"  {count} more: {reason}" for reason, count in rest.most_common(5)]
    return lines


def _corrected(rows: list[EpisodeRow]) -> list[str]:
    number = sum(row.corrected_instruction is not None for row in rows)
    return [f"{number} episodes follow another instruction than they have"] if number else []


def _checks(scores: Scores) -> list[str]:
    if not scores.checks:
        return []
    lines = ["faults injected into copies of these episodes, and how well they would be found:"]
    width = max(len(str(row["title"])) for row in scores.checks)
    for row in scores.checks:
        interval = f"{row['auroc']:.2f} [{row['auroc_low']:.2f}, {row['auroc_high']:.2f}]"
        blind = row.get("auroc_without_pictures")
        interval += "" if blind is None else f", {blind:.2f} without pictures"
        lines.append(
            f"  {row['title']:<{width}}  AUROC {interval}  dropped {row['recall']:.0%} of {row['num_copies']}"
            f"  seen by {row['strongest']}"
        )
    return lines


def _plain(line: str) -> Any:
    """Text of the dataset, in which square brackets are no styling and nothing steers the terminal."""
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
    return require("rich.text", "lerobot").Text(shown)
