"""Runs a study in its folder: what is missing is done on all cores, what is there is used as it is."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from ptr_robot.study.cells.cell import Cell
from ptr_robot.study.cells.plan import plan_cells, with_recorders
from ptr_robot.study.cells.record import CellRecord
from ptr_robot.study.engine.jobs import with_needed
from ptr_robot.study.engine.json_values import write_json
from ptr_robot.study.engine.runner import Watcher, run_jobs
from ptr_robot.study.engine.stages import claim, occupied
from ptr_robot.study.spec.definition import Study

STUDY_FILE = "study.json"


@dataclass(frozen=True)
class StudyRecords:
    """The cells of a study that have results, and those that have none."""

    study: Study
    done: tuple[CellRecord, ...]
    failed: tuple[CellRecord, ...]
    num_missing: int  # neither done nor failed

    def of(self, setting: str, method: str) -> dict[int, CellRecord]:
        """The finished cells of a method by seed."""
        return {record.seed: record for record in self.done if (record.setting, record.method) == (setting, method)}

    @property
    def versions(self) -> dict[str, list[str]]:
        """Which versions of each library the finished cells were run with."""
        names = dict.fromkeys(name for record in self.done for name in record.versions)
        return {name: sorted({r.versions[name] for r in self.done if name in r.versions}) for name in names}


def run_study(study: Study, root: Path, num_workers: int, watch: Watcher, *, keeps_checkpoints: bool = False) -> None:
    """Do every cell that has no result of these settings, with the data it needs."""
    cells = plan_cells(study, root, keeps_checkpoints=keeps_checkpoints)
    claim(root)
    with occupied(root, "study"):
        write_json(root / STUDY_FILE, dataclasses.asdict(study))
        for cell in cells:
            if cell.is_done():
                cell.run_stage.discard_if_spent()  # a killed run may have left it
        run_jobs(with_recorders(with_needed(cells), num_workers), num_workers, root, watch)


def read_study_records(study: Study, root: Path) -> StudyRecords:
    """What the study's folder holds of its cells; records of other settings do not count."""
    cells: list[Cell] = plan_cells(study, root)
    records = [record for cell in cells if (record := cell.read()) is not None]
    return StudyRecords(
        study=study,
        done=tuple(record for record in records if record.is_done),
        failed=tuple(record for record in records if not record.is_done),
        num_missing=len(cells) - len(records),
    )
