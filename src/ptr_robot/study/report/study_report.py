"""What a study leaves behind: tables as Markdown, numbers as JSON, figures as PNG, and the same on the terminal."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from ptr_robot.errors import DataError
from ptr_robot.files import atomic_file
from ptr_robot.study.analysis.findings import SettingFinding, StudyFindings, find
from ptr_robot.study.analysis.pooling import PoolingFinding, find_pooling, pooling_table
from ptr_robot.study.analysis.sweeps import Sweep, find_sweeps, sweep_table
from ptr_robot.study.engine.json_values import write_json
from ptr_robot.study.report.figures import draw_figures
from ptr_robot.study.report.paper_figures import draw_paper_figures
from ptr_robot.study.report.scorer_table import scorer_table
from ptr_robot.study.report.tables import NOTES, overview_table, setting_tables, time_table
from ptr_robot.study.report.text_table import TextTable
from ptr_robot.study.run import StudyRecords

TABLES_FILE, RESULTS_FILE, FIGURES_FOLDER = "tables.md", "results.json", "figures"


@dataclass(frozen=True)
class StudyReport:
    """What is shown of a study."""

    findings: StudyFindings
    overview: TextTable | None  # in the file alone: as wide as there are settings
    tables: tuple[TextTable, ...]
    root: Path


def write_report(records: StudyRecords, root: Path) -> StudyReport:
    """Write tables, numbers and figures of the cells that are done."""
    if not records.done and not records.failed:
        raise DataError(f"{root} has no record of this study's cells; run it without --report_only")
    findings, sweeps, pooling = find(records), find_sweeps(records), find_pooling(records)
    tables = [t for setting in findings.settings for t in _tables_of(setting, records)]
    pooled = pooling_table(pooling, records.study)
    further = [sweep_table(sweeps), pooled, time_table(findings) if findings.settings else None]
    shown = (*tables, *(table for table in further if table is not None))
    report = StudyReport(findings, overview_table(findings), shown, root)
    _write_text(root / TABLES_FILE, _markdown(report))
    write_json(root / RESULTS_FILE, _results(findings, sweeps, pooling))
    draw_figures(findings, sweeps, root / FIGURES_FOLDER)
    draw_paper_figures(findings, sweeps, root / FIGURES_FOLDER)
    return report


def _tables_of(setting: SettingFinding, records: StudyRecords) -> list[TextTable]:
    scorers = scorer_table(setting, records.done)
    return [*setting_tables(setting, records.study), *([] if scorers is None else [scorers])]


def print_report(report: StudyReport, console: Console) -> None:
    """The tables, what is missing, and where everything lies."""
    study, records = report.findings.records.study, report.findings.records
    console.print(f"[bold]{escape(study.name)}[/bold]: {escape(study.question)}")
    for table in report.tables:
        console.print()
        if table.title:
            console.print(escape(table.title), style="bold")
        console.print(table.terminal())
        if table.note:
            console.print(escape(table.note), style="dim")
    console.print()
    for note in NOTES:
        console.print(note, style="dim")
    for line in _complaints(records):
        console.print(escape(line), style="red")
    console.print(escape(f"{report.root / TABLES_FILE}, {RESULTS_FILE}, {FIGURES_FOLDER}/"), soft_wrap=True)


def _markdown(report: StudyReport) -> str:
    study, records = report.findings.records.study, report.findings.records
    tables = report.tables if report.overview is None else (report.overview, *report.tables)
    parts = [f"# {study.name}", study.question, *(table.markdown() for table in tables), *NOTES]
    return "\n\n".join(part.strip() for part in [*parts, *_complaints(records)]) + "\n"


def _complaints(records: StudyRecords) -> list[str]:
    lines = [f"{r.setting}/{r.method}/{r.seed} failed: {r.reason}" for r in records.failed]
    if records.num_missing:
        lines.append(f"{records.num_missing} cells have no record yet; run the study again to do them.")
    return lines + [
        f"cells were run with {library} {', '.join(found)}: differences between them may be the library's."
        for library, found in records.versions.items()
        if len(found) > 1
    ]


def _results(findings: StudyFindings, sweeps: tuple[Sweep, ...], pooling: tuple[PoolingFinding, ...]) -> dict[str, Any]:
    records = findings.records
    return {
        "study": dataclasses.asdict(records.study),
        "num_done": len(records.done),
        "num_missing": records.num_missing,
        "failed": [{"cell": f"{r.setting}/{r.method}/{r.seed}", "reason": r.reason} for r in records.failed],
        "settings": {finding.setting: dataclasses.asdict(finding) for finding in findings.settings},
        "sweeps": [dataclasses.asdict(sweep) for sweep in sweeps],
        "pooling": [dataclasses.asdict(finding) for finding in pooling],
    }


def _write_text(path: Path, text: str) -> None:
    with atomic_file(path) as file:
        file.write(text.encode())
