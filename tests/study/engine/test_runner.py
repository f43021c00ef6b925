"""Jobs in real processes: in the order they need, the others going on where one fails, none left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ptr_robot.errors import DataError
from ptr_robot.study.engine.jobs import Job, with_needed
from ptr_robot.study.engine.runner import run_jobs


@dataclass(frozen=True)
class Note(Job):
    """Writes the notes it needs, and its process, into a file."""

    folder: Path
    name: str
    needs: tuple[Note, ...] = ()
    does: str = "write"
    seconds: float = field(default=0.0)

    @property
    def key(self) -> str:
        return self.name

    @property
    def title(self) -> str:
        return f"note {self.name}"

    @property
    def after(self) -> tuple[Job, ...]:
        return self.needs

    def is_done(self) -> bool:
        return (self.folder / self.name).is_file()

    def run(self) -> None:
        if self.does == "hold":
            self.hold()
        time.sleep(self.seconds)
        if self.does == "complain":
            raise DataError("the ink\nis dry")
        if self.does == "break":
            raise KeyError("pen")
        if self.does == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        before = [(self.folder / needed.name).read_text().splitlines()[0] for needed in self.needs]
        (self.folder / self.name).write_text(f"{self.name}({','.join(before)})\n{os.getpid()}")

    def hold(self) -> None:
        """Keep a draft for as long as it takes, and no longer, whatever other signal comes."""
        draft = self.folder / f"{self.name}.draft"
        draft.mkdir()
        try:
            time.sleep(self.seconds)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            draft.rmdir()

    def fail(self, reason: str) -> None:
        (self.folder / f"{self.name}.failed").write_text(reason)


def quiet(state, result) -> None:
    """Watch nothing."""


def test_jobs_wait_for_what_they_need_and_workers_stay(tmp_path: Path) -> None:
    first = Note(tmp_path, "a", seconds=0.2)
    second = Note(tmp_path, "b", (first,))
    third = Note(tmp_path, "c", (first, second))
    others = [Note(tmp_path, f"x{number}") for number in range(4)]
    seen = []
    assert run_jobs([first, second, third, *others], 2, tmp_path, lambda state, result: seen.append(result)) == {}
    assert (tmp_path / "c").read_text().startswith("c(a(),b(a()))")
    assert len({(tmp_path / job.name).read_text().split()[-1] for job in (first, second, third, *others)}) == 2
    assert sorted(result.job.key for result in seen if result) == ["a", "b", "c", "x0", "x1", "x2", "x3"]


def test_a_failed_job_is_noted_with_all_that_need_it(tmp_path: Path) -> None:
    bad = Note(tmp_path, "bad", does="complain")
    odd = Note(tmp_path, "odd", does="break")
    lost = Note(tmp_path, "lost", (Note(tmp_path, "middle", (bad,)),))
    good = Note(tmp_path, "good")
    reasons = run_jobs(with_needed([lost, odd, good]), 1, tmp_path, quiet)
    assert good.is_done()
    assert reasons["bad"] == "the ink is dry"
    assert reasons["odd"] == "KeyError: 'pen'"
    assert reasons["lost"] == "note middle failed: note bad failed: the ink is dry"
    assert (tmp_path / "lost.failed").read_text() == reasons["lost"]
    assert "Traceback" in (tmp_path / "logs" / "worker-0.log").read_text()


def test_a_job_that_needs_a_failed_one_in_two_ways_fails_once(tmp_path: Path) -> None:
    """As a cell does that needs a dataset and a rule of the same dataset."""
    bad = Note(tmp_path, "bad", does="complain")
    rule = Note(tmp_path, "rule", (bad,))
    good = Note(tmp_path, "good")
    reasons = run_jobs(with_needed([Note(tmp_path, "cell", (bad, rule)), good]), 1, tmp_path, quiet)
    assert set(reasons) == {"bad", "rule", "cell"}
    assert good.is_done()


def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    jobs = [Note(tmp_path, "dead", does="die"), Note(tmp_path, "alive")]
    reasons = run_jobs(jobs, 1, tmp_path, quiet)
    assert "ended with code -9" in reasons["dead"]
    assert jobs[1].is_done()


def test_an_interrupted_run_keeps_what_is_done_cleans_up_and_leaves_no_process(tmp_path: Path) -> None:
    jobs = [Note(tmp_path, "quick"), Note(tmp_path, "slow", does="hold", seconds=600)]
    before = multiprocessing.active_children()  # of loaders that other tests have not let go of yet

    def interrupt(state, result) -> None:
        if jobs[0].is_done() and (tmp_path / "slow.draft").is_dir():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, 2, tmp_path, interrupt)
    assert set(multiprocessing.active_children()) <= set(before)
    assert not (tmp_path / "slow.draft").exists()
    assert [job.key for job in with_needed(jobs)] == ["slow"]
    assert "Traceback" not in "".join(log.read_text() for log in (tmp_path / "logs").iterdir())


def test_only_what_is_missing_is_done(tmp_path: Path) -> None:
    first = Note(tmp_path, "a")
    second = Note(tmp_path, "b", (first,))
    assert [job.key for job in with_needed([second])] == ["a", "b"]
    (tmp_path / "b").write_text("done before")
    assert with_needed([second]) == []  # nobody needs a any more
    assert run_jobs([], 2, tmp_path, quiet) == {}
