"""The study's tables: success, success by task, and how well each fault is found."""

from __future__ import annotations

from collections.abc import Mapping

from ptr_robot.study.analysis.findings import MethodFinding, SettingFinding, StudyFindings
from ptr_robot.study.report.text_table import (
    NOTHING,
    TextTable,
    difference_with_interval,
    rate,
    rate_with_interval,
    share_with_interval,
)
from ptr_robot.study.spec.definition import Study

NOTES = (
    "Success is the mean over tasks and seeds; in brackets are 95% intervals. Those of success and the difference to "
    "the baseline are Student's over seeds, the difference paired by seed: all methods of a seed share the data, the "
    "initial weights and the layouts. Both are at least as wide as the evaluation episodes alone leave them. "
    "The share of the gap from the baseline to the clean part alone has Fieller's interval over seeds alone; it is n/a "
    "where the gap's own interval reaches zero. Filters keep the better half of each task's episodes; every row takes "
    "the same number of steps with the same batch.",
    "AUROC: how often a good episode gets the higher value than one with the fault, among episodes that the dataset "
    "gives to the same task; 0.50 is chance, the mean over seeds is shown. An episode with several faults counts for "
    "each.",
)


def success_table(finding: SettingFinding, study: Study) -> TextTable:
    """One row a method: average, difference to the baseline, share of the gap."""
    columns: tuple[str, ...] = ("method", "success", f"against {study.baseline}", "gap share")
    rows: list[tuple[str, ...]] = [
        (
            method.title,
            rate_with_interval(method.success),
            difference_with_interval(method.difference),
            _share(method, finding),
        )
        for method in finding.methods
    ]
    if len({len(method.seeds) for method in finding.methods}) > 1:
        columns = (*columns, "seeds")
        rows = [(*row, str(len(method.seeds))) for row, method in zip(rows, finding.methods, strict=True)]
    size = f"Every row trains the policy preset {study.policy.preset}."
    note = f"{_counts(finding)} {size} For a verdict on methods: {finding.fitness.verdict}"
    return TextTable(f"{finding.setting}: {finding.title}", columns, tuple(rows), note)


def overview_table(findings: StudyFindings) -> TextTable | None:
    """Success of every method in every setting, and the mean over settings; None where there is one setting."""
    settings = findings.settings
    if len(settings) < 2:
        return None
    rates = {(s.setting, method.method): method.success.estimate for s in settings for method in s.methods}
    rows = []
    for row in findings.records.study.methods:
        own = [rates.get((setting.setting, row.name)) for setting in settings]
        known = [value for value in own if value is not None]
        if known:
            mean = sum(known) / len(known) if len(known) == len(own) else None
            rows.append((row.label, *(rate(value) for value in own), rate(mean)))
    columns = ("success by setting", *(setting.setting for setting in settings), "mean")
    return TextTable("All settings", columns, tuple(rows), "The mean is of methods that were run in every setting.")


def task_table(finding: SettingFinding, titles: Mapping[str, str]) -> TextTable:
    """Success by task."""
    columns = ("success by task", *(titles[task] for task in finding.tasks), "all")
    rows = [
        (
            method.title,
            *(rate(method.success_by_task.get(task)) for task in finding.tasks),
            rate(method.success.estimate),
        )
        for method in finding.methods
    ]
    return TextTable("", columns, tuple(rows))


def detection_table(finding: SettingFinding) -> TextTable | None:
    """AUROC of every score and weight by fault, with the number of episodes of each; None where none has one."""
    if not finding.detection:
        return None
    faults = list(dict.fromkeys(found.fault for found in finding.detection))
    num_seeds = {method.method: max(1, len(method.seeds)) for method in finding.methods}
    counts = {found.fault: found.num_faulty / num_seeds[found.method] for found in finding.detection}
    columns = ("AUROC", *(f"{fault.replace('_', ' ')} ({counts[fault]:.0f})" for fault in faults))
    rows = []
    for method, title, value in dict.fromkeys((f.method, f.title, f.value) for f in finding.detection):
        areas = {f.fault: f.auroc.estimate for f in finding.detection if (f.method, f.value) == (method, value)}
        rows.append((f"{title}: {value}", *(rate(areas.get(fault)) for fault in faults)))
    return TextTable("", columns, tuple(rows), "In parentheses: faulty episodes a seed.")


def weight_table(finding: SettingFinding) -> TextTable | None:
    """What good and faulty episodes weigh on average, and how many were trained on."""
    weighing = [method for method in finding.methods if method.weight_good is not None]
    if not weighing:
        return None
    rows = [
        (method.title, f"{method.num_training_episodes:.0f}", rate(method.weight_good), rate(method.weight_faulty))
        for method in weighing
    ]
    return TextTable("", ("mean weight", "episodes", "good", "faulty"), tuple(rows))


def time_table(findings: StudyFindings) -> TextTable:
    """Seconds of a cell by its parts, over all settings."""
    rows = []
    for row in findings.records.study.methods:
        cells = [m for setting in findings.settings for m in setting.methods if m.method == row.name]
        if cells:
            parts = list(cells[0].seconds)
            means = [sum(cell.seconds[part] for cell in cells) / len(cells) for part in parts]
            rows.append((row.label, *(f"{mean:.1f}" for mean in means), f"{sum(means):.1f}"))
    return TextTable("", ("seconds a cell", "prepare", "train", "evaluate", "record", "all"), tuple(rows))


def setting_tables(finding: SettingFinding, study: Study) -> list[TextTable]:
    """All tables of a setting."""
    tables = [
        success_table(finding, study),
        task_table(finding, study.task_titles(study.settings[finding.setting])),
        detection_table(finding),
        weight_table(finding),
    ]
    return [table for table in tables if table is not None]


def _share(method: MethodFinding, finding: SettingFinding) -> str:
    if method.gap_share is not None:
        return share_with_interval(method.gap_share)
    has_none = method.difference is None or finding.gap is None or method.method == finding.upper_bound
    return NOTHING if has_none else "n/a"


def _counts(finding: SettingFinding) -> str:
    seeds = sorted({len(method.seeds) for method in finding.methods})
    episodes = sorted({method.num_episodes // len(method.seeds) for method in finding.methods})
    span = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    word = "seed" if span == "1" else "seeds"
    return f"{span} {word} of {'/'.join(map(str, episodes))} evaluation episodes each."
