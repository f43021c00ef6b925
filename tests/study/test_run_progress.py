"""What a watcher reads: one line a job, and the time left from how long jobs of each kind took."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from ptr_robot.progress import counting
from ptr_robot.study.engine.job_workers import JobResult
from ptr_robot.study.engine.runner import RunState
from ptr_robot.study.run_progress import StudyProgress
from tests.study.engine.test_runner import Note


def test_time_left_is_the_mean_of_each_kind_over_the_workers(tmp_path: Path) -> None:
    jobs = [Note(tmp_path, str(number)) for number in range(6)]
    console = Console(record=True, width=120, file=(tmp_path / "shown").open("w"))
    with StudyProgress(console, num_workers=2) as progress:
        progress(RunState(0, 6, (jobs[0],), tuple(jobs[1:])), None)
        progress(RunState(1, 6, (), tuple(jobs[1:])), JobResult(jobs[0], 60.0))
        progress(RunState(2, 6, (jobs[2],), tuple(jobs[3:])), JobResult(jobs[1], 120.0))
        progress(RunState(3, 6, (), ()), JobResult(jobs[2], 0.0, "[bold]bad[/bold]"))
    lines = console.export_text().splitlines()
    assert lines[0] == "[1/6] note 0 in 60 s; 2:30 left"  # five more of 60 s for two workers
    assert lines[1] == "[2/6] note 1 in 120 s; 2:37 left"  # 3.5 of 90 s
    assert lines[2] == "[3/6] note 2 failed: [bold]bad[/bold]"


@pytest.mark.parametrize(("total", "lines"), [(3, 3), (25, 10)])
def test_a_log_has_a_line_after_every_tenth(total: int, lines: int) -> None:
    console = Console(file=io.StringIO(), width=80)
    with counting("recording [a]", total, console) as advance:
        for _ in range(total):
            advance(", well")
    written = console.file.getvalue().splitlines()
    assert len(written) == lines
    assert re.fullmatch(rf"recording \[a\]: {total} of {total}, [\d.]+/s, well, 0:00 left", written[-1])
