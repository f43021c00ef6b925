"""``ptr demo``: collect mixed-quality demonstrations, train SFT, PTR and the clean part, and compare."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ptr_robot.cli.flags import parse_flags
from ptr_robot.study.analysis.outcome import verdict
from ptr_robot.study.demo import run_demo
from ptr_robot.study.demo_plan import DemoConfig
from ptr_robot.study.report.demo_report import (
    COLUMNS,
    FIGURES_FOLDER,
    LEGEND,
    comparison_rows,
    introduction,
    write_report,
)


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    config = parse_flags(DemoConfig, arguments)
    started = time.monotonic()
    progress = Console(stderr=True)
    findings = run_demo(config, progress, lambda text: progress.print(escape(text), soft_wrap=True))
    report = write_report(findings)
    console = Console()
    table = Table(*COLUMNS, box=None)
    for row in comparison_rows(findings.comparison):
        table.add_row(*row)
    console.print(introduction(findings))
    console.print(table)
    console.print(LEGEND)
    for sentence in verdict(findings.comparison):
        console.print(f"- {sentence}")
    console.print(escape(f"Figures: {config.root / FIGURES_FOLDER}; open {report}"))
    console.print(f"This took {(time.monotonic() - started) / 60:.1f} minutes; what is there is reused the next time.")
    return 0
