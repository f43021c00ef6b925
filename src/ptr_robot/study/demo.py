"""The demo: the study of that name, one seed of one setting, with a table, figures and a page of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ptr_robot.data.ground_truth import EpisodeTruth, read_ground_truth
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.study.analysis.detection import weight_auroc
from ptr_robot.study.analysis.outcome import Comparison, MethodOutcome
from ptr_robot.study.cells.plan import dataset_job
from ptr_robot.study.cells.record import CellRecord
from ptr_robot.study.cells.scored_episode import ScoredEpisode
from ptr_robot.study.engine.json_values import write_json
from ptr_robot.study.engine.runner import Watcher
from ptr_robot.study.run import read_study_records, run_study
from ptr_robot.study.spec.definition import Study
from ptr_robot.study.spec.definition_file import read_study
from ptr_robot.study.spec.method_row import MethodRow

STUDY = "demo"
COMPARISON_FILE = "comparison.json"


class FailedDemoError(DataError):
    """A part of the demo ended with an error of its own."""


@dataclass(frozen=True)
class DemoFindings:
    """Everything that the table, the figures and the page show."""

    study: Study
    root: Path
    comparison: Comparison
    dataset: Path
    truths: dict[int, EpisodeTruth]
    scored: dict[str, list[ScoredEpisode]]  # by method; of those that score or weigh episodes themselves
    curves: dict[str, dict[str, list[float | None]]]  # by method: what training recorded over its steps


def read_demo(scale: str, seed: int) -> Study:
    """The demo's study at one of its scales, with one seed."""
    return read_study(STUDY, {"seeds": [seed]}, scale)


def run_demo(study: Study, root: Path, num_workers: int, watch: Watcher) -> DemoFindings:
    """Do what is not done yet, and compare; what is there already is used as it is."""
    if (root / "demonstrations" / "meta").is_dir():
        raise ConfigError(f"{root} holds a demo of version 0.1; remove it, or choose another --output_dir")
    run_study(study, root, num_workers, watch, keeps_checkpoints=True)
    findings = read_findings(study, root)
    write_json(root / COMPARISON_FILE, findings.comparison.as_json())
    return findings


def read_findings(study: Study, root: Path) -> DemoFindings:
    """What the finished cells hold."""
    records = read_study_records(study, root)
    if records.failed:
        first = records.failed[0]
        raise FailedDemoError(f"{first.method}: {first.reason}; everything that was printed is in {root / 'logs'}")
    cells = {record.method: record for record in records.done}
    (setting,) = study.settings.values()
    dataset = dataset_job(study, root, setting, study.seeds[0]).output
    scored = {row.name: _scored(cells[row.name]) for row in study.methods if row.weighs_itself}
    outcomes = tuple(_outcome(row, cells[row.name], scored.get(row.name, [])) for row in study.methods)
    return DemoFindings(
        study=study,
        root=root,
        comparison=Comparison(outcomes, study.baseline, study.upper_bound),
        dataset=dataset,
        truths=_truths(dataset),
        scored=scored,
        curves={row.name: cells[row.name].curves for row in study.methods},
    )


def _truths(dataset: Path) -> dict[int, EpisodeTruth]:
    truths = read_ground_truth(dataset)
    if truths is None:
        raise DataError(f"{dataset} has no ground truth; remove the folder and run again")
    return truths


def _scored(cell: CellRecord) -> list[ScoredEpisode]:
    """The episodes that training scored; one too short to have a chunk is never met."""
    return [episode for episode in cell.scored_episodes if episode.score is not None and episode.weight is not None]


def _outcome(row: MethodRow, cell: CellRecord, scored: list[ScoredEpisode]) -> MethodOutcome:
    return MethodOutcome(row.name, row.label, cell.episodes, weight_auroc(scored))
