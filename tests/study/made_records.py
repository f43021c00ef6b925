"""Records of cells that were never run, with the numbers that a test wants."""

from __future__ import annotations

from collections.abc import Mapping

from ptr_robot.study.cells.record import CellRecord, EpisodeOutcome
from ptr_robot.study.run import StudyRecords
from ptr_robot.study.spec.definition import Study

EPISODES = 10


def made_cell(setting: str, method: str, seed: int, rates: Mapping[str, float], **fields) -> CellRecord:
    """A cell with that success on each task, of ten episodes each."""
    episodes = [
        EpisodeOutcome(task, 1000 + number, number < round(rate * EPISODES), 50)
        for task, rate in rates.items()
        for number in range(EPISODES)
    ]
    seconds = {"prepare": 1.0, "train": 60.0, "evaluate": 20.0, "record": 0.5}
    return CellRecord(setting, method, seed, "made", episodes=tuple(episodes), seconds=seconds, **fields)


def made_records(study: Study, cells: list[CellRecord]) -> StudyRecords:
    """As if the study had made them."""
    return StudyRecords(study, tuple(cells), (), 0)
