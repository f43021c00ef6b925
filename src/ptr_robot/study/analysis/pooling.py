"""Generalists against specialists: one policy on pooled sources, and one policy a source, on the same layouts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptr_robot.eval.success_statistics import Interval
from ptr_robot.study.analysis.seed_statistics import Outcomes, mean_interval, paired_difference
from ptr_robot.study.cells.record import CellRecord
from ptr_robot.study.report.text_table import TextTable, difference_with_interval, rate, rate_with_interval
from ptr_robot.study.run import StudyRecords
from ptr_robot.study.spec.definition import Study


@dataclass(frozen=True)
class PoolingFinding:
    """One method: a policy on all sources, against the policies on each."""

    pooled: str  # the setting that pools
    method: str
    title: str
    specialist_by_task: dict[str, float]
    generalist_by_task: dict[str, float]
    specialist: Interval
    generalist: Interval
    difference: Interval | None  # generalist minus specialists, paired by seed


def find_pooling(records: StudyRecords) -> tuple[PoolingFinding, ...]:
    """Every method of every setting that pools, over the seeds for which all its policies are there."""
    found = []
    for name, setting in records.study.settings.items():
        for row in records.study.methods if setting.pool else []:
            generalists = records.of(name, row.name)
            evaluated = [part for part in setting.pool if part in records.study.evaluated_settings]
            parts = [records.of(part, row.name) for part in evaluated]
            seeds = [seed for seed in generalists if all(seed in part for part in parts)]
            if seeds:
                specialists = {seed: [part[seed] for part in parts] for seed in seeds}
                found.append(_compare(name, row.name, row.label, {s: generalists[s] for s in seeds}, specialists))
    return tuple(found)


def pooling_table(findings: tuple[PoolingFinding, ...], study: Study) -> TextTable | None:
    """Two rows a method."""
    if not findings:
        return None
    tasks = list(dict.fromkeys(task for finding in findings for task in finding.generalist_by_task))
    pools = dict.fromkeys(finding.pooled for finding in findings)
    titles = {task: title for name in pools for task, title in study.task_titles(study.settings[name]).items()}
    rows = []
    for finding in findings:
        for title, rates, mean, difference in (
            ("one policy a source", finding.specialist_by_task, finding.specialist, ""),
            (finding.pooled, finding.generalist_by_task, finding.generalist, finding.difference),
        ):
            against = difference if isinstance(difference, str) else difference_with_interval(difference)
            cells = (rate(rates.get(task)) for task in tasks)
            rows.append((f"{finding.title}, {title}", *cells, rate_with_interval(mean), against))
    columns = ("policy", *(titles[task] for task in tasks), "all", "difference")
    note = (
        "The difference is generalist minus specialists, paired by seed; every policy meets the same layouts. "
        "Intervals here are over seeds alone."
    )
    return TextTable("pooled sources against one policy each", columns, tuple(rows), note)


def _compare(
    pooled: str,
    method: str,
    title: str,
    generalists: dict[int, CellRecord],
    specialists: dict[int, list[CellRecord]],
) -> PoolingFinding:
    tasks = next(iter(generalists.values())).tasks
    general = _rates({seed: [cell] for seed, cell in generalists.items()}, tasks)
    special = _rates(specialists, tasks)
    return PoolingFinding(
        pooled=pooled,
        method=method,
        title=title,
        specialist_by_task=_by_task(special, tasks),
        generalist_by_task=_by_task(general, tasks),
        specialist=mean_interval([float(rates.mean()) for rates in special.values()]),
        generalist=mean_interval([float(rates.mean()) for rates in general.values()]),
        difference=paired_difference(general, special),
    )


def _rates(cells: dict[int, list[CellRecord]], tasks: tuple[str, ...]) -> Outcomes:
    """By seed: (tasks,) the success of the policy that was trained for the task, or the mean of those that were."""
    return {
        seed: np.array([np.mean([cell.success_of(task) for cell in group if task in cell.tasks]) for task in tasks])
        for seed, group in cells.items()
    }


def _by_task(rates: Outcomes, tasks: tuple[str, ...]) -> dict[str, float]:
    means = np.mean(list(rates.values()), axis=0)
    return {task: float(mean) for task, mean in zip(tasks, means, strict=True)}
