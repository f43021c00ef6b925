"""What a study leaves behind: tables as Markdown, numbers as JSON, figures as PNG, and the same on the terminal."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from ptr_robot.data.cache import whole_file
from ptr_robot.errors import DataError
from ptr_robot.study.findings import StudyFindings, find
from ptr_robot.study.study_run import StudyRecords
from ptr_robot.study.tables import NOTES, setting_tables, time_table
from ptr_robot.study.text_table import TextTable

TABLES_FILE, RESULTS_FILE, FIGURES_FOLDER = "tables.md", "results.json", "figures"


@dataclass(frozen=True)
class StudyReport:
    """What is shown of a study."""

    findings: StudyFindings
    tables: tuple[TextTable, ...]
    root: Path


def write_report(records: StudyRecords, root: Path) -> StudyReport:
    """Write tables, numbers and figures of the cells that are done."""
    if not records.done and not records.failed:
        raise DataError(f"{root} has no record of this study's cells; run it without --report_only")
    findings = find(records)
    tables = [t for setting in findings.settings for t in setting_tables(setting, records.study.baseline)]
    report = StudyReport(findings, (*tables, *([time_table(findings)] if findings.settings else [])), root)
    _write_text(root / TABLES_FILE, _markdown(report))
    _write_text(root / RESULTS_FILE, json.dumps(_plain(_results(findings)), indent=1) + "\n")
    return report


def print_report(report: StudyReport, console: Console) -> None:
    """The tables, what is missing, and where everything lies."""
    study, records = report.findings.records.study, report.findings.records
    console.print(f"[bold]{escape(study.name)}[/bold]: {escape(study.question)}")
    for table in report.tables:
        console.print()
        console.print(table.terminal())
        if table.note:
            console.print(escape(table.note), style="dim")
    console.print()
    for note in NOTES:
        console.print(note, style="dim")
    for line in _complaints(records):
        console.print(escape(line), style="red")
    console.print(f"{report.root / TABLES_FILE}, {RESULTS_FILE}, {FIGURES_FOLDER}/", soft_wrap=True)


def _markdown(report: StudyReport) -> str:
    study, records = report.findings.records.study, report.findings.records
    parts = [f"# {study.name}", study.question, *(table.markdown() for table in report.tables), *NOTES]
    return "\n\n".join(part.strip() for part in [*parts, *_complaints(records)]) + "\n"


def _complaints(records: StudyRecords) -> list[str]:
    lines = [f"{r.setting}/{r.method}/{r.seed} failed: {r.reason}" for r in records.failed]
    if records.num_missing:
        lines.append(f"{records.num_missing} cells have no record yet; run the study again to do them.")
    return lines


def _results(findings: StudyFindings) -> dict[str, Any]:
    records = findings.records
    return {
        "study": dataclasses.asdict(records.study),
        "num_done": len(records.done),
        "num_missing": records.num_missing,
        "failed": [{"cell": f"{r.setting}/{r.method}/{r.seed}", "reason": r.reason} for r in records.failed],
        "settings": {finding.setting: dataclasses.asdict(finding) for finding in findings.settings},
    }


def _plain(value: Any) -> Any:
    """JSON has no NaN: a limit that is not known is null."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_text(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())
