"""A small dataset with made-up scores: the page and the export do not care where scores come from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from ptr_robot.audit.score_files import FrameScores, Scores, write_scores
from ptr_robot.data.ground_truth import EpisodeTruth, write_ground_truth
from ptr_robot.data.lerobot.index import DatasetIndex, open_index
from ptr_robot.method.scoring.check import CheckResult
from ptr_robot.scorers.episode_rows import EpisodeRow
from tests.train.datasets import record_dataset

LENGTHS = (24, 30, 18, 26, 22)
OPERATORS = ("Ada", "Grace")
CHECKS = (
    CheckResult("action_noise", "noise on actions", 4, 0.97, 0.94, 0.99, 0.75, "jerk"),
    CheckResult("pause", "standing still", 4, 0.81, 0.7, 0.9, 0.25, "outcome"),
)
NASTY = "</script><script>document.title='broken in'</script><img src=x onerror=alert(1)>"


def make_scores(index: DatasetIndex, verdicts: str = "kkfdk") -> Scores:
    words = {"k": "keep", "f": "flag", "d": "drop"}
    values = {"keep": 0.8, "flag": 0.1, "drop": 0.01}
    rows = {}
    for place, episode in enumerate(index.episodes):
        verdict = words[verdicts[place % len(verdicts)]]
        score = values[verdict]
        rows[episode.episode_index] = EpisodeRow(
            episode_index=episode.episode_index,
            score=score,
            low=max(0.0, score - 0.05),
            high=min(1.0, score + 0.05),
            weight=0.0 if verdict == "drop" else 1.0,
            verdict=verdict,
            reason="" if verdict == "keep" else f"does not move for 1.2 s {NASTY}",
            corrected_instruction="open the drawer" if place == 4 else None,
            evidence={"outcome": score, "jerk": 0.5},
        )
    lengths = [episode.length for episode in index.episodes]
    owners = np.repeat([episode.episode_index for episode in index.episodes], lengths)
    frames = np.concatenate([np.arange(length) for length in lengths])
    evidence = np.where(frames < 4, 0.01, 0.9).astype(np.float32)
    weight = np.array([rows[number].weight for number in owners], dtype=np.float32)
    first = np.repeat([episode.first_index for episode in index.episodes], lengths)
    return Scores(
        rows=rows,
        frames=FrameScores(first + frames, owners, frames, weight, {"outcome": evidence}),
        channels={"outcome": "where the motion leads", "jerk": "roughness of the actions"},
        statements=["About 0 of 4 good episodes are expected to be lost."],
        checks=[dataclasses.asdict(result) for result in CHECKS],
        dataset={"total_frames": index.total_frames},
    )


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = record_dataset(tmp_path_factory.mktemp("audit") / "puck", lengths=LENGTHS, pixels=24)
    operators = [OPERATORS[number % len(OPERATORS)] for number in range(len(LENGTHS))]
    write_ground_truth(root, [EpisodeTruth(number, operator=name) for number, name in enumerate(operators)])
    return root


@pytest.fixture(scope="session")
def index(dataset: Path) -> DatasetIndex:
    return open_index(dataset)


@pytest.fixture(scope="session")
def scores(index: DatasetIndex) -> Scores:
    return make_scores(index)


@pytest.fixture(scope="session")
def score_folder(scores: Scores, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scores")
    write_scores(folder, scores)
    return folder
