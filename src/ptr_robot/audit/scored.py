"""Scores from Python, for notebooks: tables and a figure of a dataset in two lines."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptr_robot.audit.score_files import Scores, write_scores
from ptr_robot.audit.scoring import ScoreSettings, check_settings
from ptr_robot.audit.scoring import score_dataset as score_opened
from ptr_robot.data.lerobot.index import find_folder, open_index
from ptr_robot.errors import require

COLOURS = {"keep": "#0072b2", "flag": "#e69f00", "drop": "#d55e00"}


@dataclass(frozen=True)
class ScoredDataset:
    """A dataset's scores as tables."""

    scores: Scores

    @property
    def episodes(self) -> list[dict[str, Any]]:
        """One row an episode: score, verdict, reason, and the evidence of each channel."""
        rows = []
        for number in sorted(self.scores.rows):
            row = dataclasses.asdict(self.scores.rows[number])
            evidence = row.pop("evidence")
            rows.append(row | {f"evidence_{name}": value for name, value in evidence.items()})
        return rows

    def to_pandas(self) -> Any:
        """The same as a pandas table."""
        return require("pandas", "lerobot").DataFrame(self.episodes)

    def figure(self) -> Any:
        """Scores with their intervals in the order of recording, as a matplotlib figure."""
        pyplot = require("matplotlib.pyplot", "report")
        figure, axes = pyplot.subplots(figsize=(9, 3), layout="constrained")
        for verdict, colour in COLOURS.items():
            rows = [row for row in self.scores.rows.values() if row.verdict == verdict]
            numbers, values = [row.episode_index for row in rows], [row.score for row in rows]
            axes.vlines(numbers, [row.low for row in rows], [row.high for row in rows], color=colour, alpha=0.4)
            axes.scatter(numbers, values, color=colour, s=16, label=f"{verdict} ({len(rows)})")
        axes.set(xlabel="episode", ylabel="score", ylim=(-0.03, 1.03))
        axes.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
        return figure

    def save(self, folder: str | Path) -> None:
        """Write the files that ``ptr report`` and ``ptr export`` take."""
        write_scores(Path(folder).expanduser(), self.scores)


def score_dataset(dataset: str | Path, **settings: Any) -> ScoredDataset:
    """Score a LeRobot dataset, a folder or a hub id; settings are those of ``ptr score``."""
    chosen = ScoreSettings(**settings)
    check_settings(chosen)
    root = find_folder(dataset)
    keys = chosen.state_keys or ["observation.state", "observation.environment_state"]
    index = open_index(root, skip_bad_episodes=True, camera_keys=(), vector_keys=(*keys, chosen.action_key))
    return ScoredDataset(score_opened(index, chosen))
