"""What a study found, as numbers: one row a method in each setting, and how well each judge finds each fault."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ptr_robot.eval.success_statistics import Interval
from ptr_robot.study.analysis.detection import count_of
from ptr_robot.study.analysis.fitness import Fitness, find_fitness
from ptr_robot.study.analysis.seed_statistics import (
    Outcomes,
    cluster_bootstrap,
    gap_share,
    mean_interval,
    success_difference,
    success_rate,
)
from ptr_robot.study.cells.record import CellRecord
from ptr_robot.study.run import StudyRecords


@dataclass(frozen=True)
class MethodFinding:
    """One method in one setting, over its finished seeds."""

    method: str
    title: str
    seeds: tuple[int, ...]
    num_episodes: int  # of evaluation, all seeds together
    num_training_episodes: float  # mean over seeds
    success_by_task: dict[str, float]
    success: Interval
    difference: Interval | None  # to the baseline, paired by seed
    difference_bootstrap: Interval | None
    gap_share: Interval | None
    weight_good: float | None
    weight_faulty: float | None
    seconds: dict[str, float]  # mean over seeds


@dataclass(frozen=True)
class DetectionFinding:
    """How well what a method says of episodes finds one fault: 0.5 is chance."""

    method: str
    title: str
    value: str  # "score" or "weight"
    fault: str
    auroc: Interval
    num_faulty: int  # over all seeds
    num_good: int


@dataclass(frozen=True)
class SettingFinding:
    """One data condition."""

    setting: str
    title: str
    tasks: tuple[str, ...]
    methods: tuple[MethodFinding, ...]
    upper_bound: str  # the method that is one
    gap: Interval | None  # the upper bound minus the baseline
    fitness: Fitness
    detection: tuple[DetectionFinding, ...]


@dataclass(frozen=True)
class StudyFindings:
    """All of it."""

    records: StudyRecords
    settings: tuple[SettingFinding, ...]


def find(records: StudyRecords) -> StudyFindings:
    """Summarise the finished cells; settings and methods without one are left out."""
    names = [
        name for name in records.study.evaluated_settings if any(record.setting == name for record in records.done)
    ]
    return StudyFindings(records, tuple(_find_setting(records, name) for name in names))


def outcomes(cells: dict[int, CellRecord]) -> Outcomes:
    """Success of every episode by seed, in an order that all methods share."""
    return {
        seed: np.array([e.is_success for e in sorted(cell.episodes, key=lambda e: (e.task, e.seed))], dtype=float)
        for seed, cell in cells.items()
    }


def _find_setting(records: StudyRecords, name: str) -> SettingFinding:
    study = records.study
    present = [row for row in study.methods if records.of(name, row.name)]
    baseline = outcomes(records.of(name, study.baseline))
    upper_bound = outcomes(records.of(name, study.upper_bound))
    methods = [_find_method(records, name, row.name, row.label, baseline, upper_bound) for row in present]
    judging = [row for row in present if not row.knows_the_truth]
    detection = [found for row in judging for found in _find_detection(records, name, row.name, row.label)]
    return SettingFinding(
        setting=name,
        title=study.settings[name].title or name,
        tasks=study.tasks_of(study.settings[name]),
        methods=tuple(methods),
        upper_bound=study.upper_bound,
        gap=success_difference(upper_bound, baseline),
        fitness=_find_fitness(records, name, baseline),
        detection=tuple(detection),
    )


def _find_fitness(records: StudyRecords, setting: str, baseline: Outcomes) -> Fitness:
    rows = records.study.methods
    controls = [(row.label, outcomes(records.of(setting, row.name))) for row in rows if row.is_positive_control]
    own = next((row for row in rows if row.name == records.study.baseline), None)
    longer = [
        (row.label, outcomes(records.of(setting, row.name)))
        for row in rows
        if own is not None and row.batch_factor > 1 and row.trains_like(own)
    ]
    return find_fitness(baseline, controls, longer[0] if longer else None)


def _find_method(
    records: StudyRecords, setting: str, method: str, title: str, baseline: Outcomes, upper_bound: Outcomes
) -> MethodFinding:
    cells = records.of(setting, method)
    own, study = outcomes(cells), records.study
    is_baseline, is_bound = method == study.baseline, method == study.upper_bound
    tasks = next(iter(cells.values())).tasks
    return MethodFinding(
        method=method,
        title=title,
        seeds=tuple(cells),
        num_episodes=sum(len(values) for values in own.values()),
        num_training_episodes=float(np.mean([cell.num_training_episodes for cell in cells.values()])),
        success_by_task={task: float(np.mean([c.success_of(task) for c in cells.values()])) for task in tasks},
        success=success_rate(own),
        difference=None if is_baseline else success_difference(own, baseline),
        difference_bootstrap=None if is_baseline else cluster_bootstrap(own, baseline),
        gap_share=None if is_baseline or is_bound else gap_share(own, baseline, upper_bound),
        weight_good=_mean(cell.mean_weight.get("good") for cell in cells.values()),
        weight_faulty=_mean(cell.mean_weight.get("faulty") for cell in cells.values()),
        seconds={
            part: float(np.mean([cell.seconds[part] for cell in cells.values()]))
            for part in next(iter(cells.values())).seconds
        },
    )


def _find_detection(records: StudyRecords, setting: str, method: str, title: str) -> list[DetectionFinding]:
    cells = list(records.of(setting, method).values())
    found = []
    for value in ("score", "weight"):
        kinds = dict.fromkeys(kind for cell in cells for kind in cell.auroc.get(value, {}))
        for kind in kinds:
            areas = [area for cell in cells if (area := cell.auroc.get(value, {}).get(kind)) is not None]
            if areas:
                num_faulty = sum(count_of(cell.scored_episodes, kind) for cell in cells)
                num_good = sum(episode.is_good for cell in cells for episode in cell.scored_episodes)
                found.append(DetectionFinding(method, title, value, kind, mean_interval(areas), num_faulty, num_good))
    return found


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
