"""What a person watching sees: a bar in a terminal, a line every ``log_freq`` steps in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from ptr_robot.errors import require


class TrainingProgress:
    """Shows how far the run is, how fast, and how long it will take; silent on all ranks but the first."""

    def __init__(self, total: int, done: int, *, is_main: bool) -> None:
        self._total, self._done, self._first = total, done, done
        self._is_main = is_main
        self._started = time.perf_counter()
        progress = require("rich.progress", "lerobot")
        self._console = require("rich.console", "lerobot").Console(stderr=True)
        self._is_live = is_main and self._console.is_terminal
        self._bar = progress.Progress(
            progress.BarColumn(bar_width=None),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[text]}"),
            progress.TimeRemainingColumn(),
            console=self._console,
            disable=not self._is_live,
        )
        self._task = self._bar.add_task("train", total=total, completed=done, text="")

    def __enter__(self) -> TrainingProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self) -> None:
        """One more step is done."""
        self._done += 1
        self._bar.advance(self._task)

    def show(self, record: dict[str, float]) -> None:
        """The main numbers of a record."""
        if self._is_live:
            self._bar.update(self._task, text=f"{record['steps_per_second']:.1f}/s loss {record['action_loss']:.3f}")
        elif self._is_main:
            sys.stderr.write(self._line(record) + "\n")
            sys.stderr.flush()

    def say(self, text: str) -> None:
        """A message of its own, above the bar."""
        if self._is_live:
            self._console.print(text, highlight=False, soft_wrap=True)
        elif self._is_main:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def _line(self, record: dict[str, float]) -> str:
        """At most 80 columns."""
        steps = f"step {self._done}/{self._total}"
        numbers = f"loss {record['action_loss']:.4f}  weight {record['weight_mean']:.2f}±{record['weight_std']:.2f}"
        rate = f"{record['steps_per_second']:.2f} steps/s"
        return f"{steps}  {numbers}  {rate}  {duration(self._seconds_left())} left"

    def _seconds_left(self) -> float:
        done = max(1, self._done - self._first)
        return (time.perf_counter() - self._started) / done * (self._total - self._done)


class ScreeningProgress:
    """A bar in a terminal, one line for each part of the work in a log."""

    def __init__(self) -> None:
        progress = require("rich.progress", "lerobot")
        console = require("rich.console", "lerobot").Console(stderr=True)
        self._is_live = console.is_terminal
        self._bar = progress.Progress(console=console, disable=not self._is_live, transient=True)
        self._task = self._bar.add_task("", total=1.0)
        self._name = ""

    def __enter__(self) -> ScreeningProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, name: str, share: float) -> None:
        """``name`` is under way and ``share`` of it is done; it may end before all of it is."""
        if name != self._name:
            self._name = name
            self._bar.reset(self._task, description=name)
            if not self._is_live:
                sys.stderr.write(name + "\n")
                sys.stderr.flush()
        self._bar.update(self._task, completed=share)


def duration(seconds: float) -> str:
    """Hours, minutes and seconds: ``1:02:03``, or ``2:03`` below an hour."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
