"""``ptr demo``: collect mixed-quality demonstrations, train on them in four ways, compare, audit the data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ptr_robot.cli.flags import parse_flags
from ptr_robot.cli.report import ReportFlags, make_report
from ptr_robot.errors import ConfigError
from ptr_robot.study.analysis.outcome import verdict
from ptr_robot.study.demo import DemoFindings, read_demo, run_demo
from ptr_robot.study.report.demo_report import (
    COLUMNS,
    FIGURES_FOLDER,
    LEGEND,
    comparison_rows,
    introduction,
    write_report,
)
from ptr_robot.study.run_progress import StudyProgress

AUDIT_FOLDER = "audit"


@dataclass(frozen=True)
class DemoFlags:
    """Collect mixed-quality demonstrations, train SFT, PTR, screening and the clean part: ptr demo."""

    # Where everything goes, and is found again.
    output_dir: str = "outputs/demo"
    # full, or smoke: as little as shows that everything works.
    scale: str = "full"
    # Seed of the demonstrations, the trainings and the evaluation's layouts.
    seed: int = 0
    # Processes that record, train and evaluate side by side.
    num_workers: int = 2

    def __post_init__(self) -> None:
        if self.num_workers < 1:
            raise ConfigError(f"num_workers is {self.num_workers}; it must be at least 1")


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    flags = parse_flags(DemoFlags, arguments)
    study, root = read_demo(flags.scale, flags.seed), Path(flags.output_dir).expanduser()
    started = time.monotonic()
    with StudyProgress(Console(stderr=True), flags.num_workers) as watch:
        findings = run_demo(study, root, flags.num_workers, watch)
    report, audit = write_report(findings), _audit(findings)
    console = Console()
    _print_findings(findings, console)
    console.print(escape(f"Figures: {root / FIGURES_FOLDER}; open {report}"), soft_wrap=True)
    console.print(escape(f"Which demonstrations hurt, where and why: open {audit}"), soft_wrap=True)
    console.print(f"This took {(time.monotonic() - started) / 60:.1f} minutes; what is there is reused the next time.")
    return 0


def _audit(findings: DemoFindings) -> Path:
    """The page on the demonstrations, scored without the marks; scores that are there are used as they are."""
    folder = findings.root / AUDIT_FOLDER / findings.dataset.name
    return make_report(ReportFlags(dataset=str(findings.dataset), output_dir=str(folder))).path


def _print_findings(findings: DemoFindings, console: Console) -> None:
    table = Table(*COLUMNS, box=None)
    for row in comparison_rows(findings.comparison):
        table.add_row(*row)
    console.print(introduction(findings))
    console.print(table)
    console.print(LEGEND)
    for sentence in verdict(findings.comparison):
        console.print(f"- {sentence}")
