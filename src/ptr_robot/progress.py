"""Progress on the terminal: what is done, how fast it goes, and when it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def make_progress(console: Console) -> Progress:
    """A bar with a label, a count, a rate, and the time that has passed and is left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=console,
        disable=not console.is_terminal,
    )


@contextlib.contextmanager
def counting(label: str, total: int, console: Console) -> Iterator[Callable[[str], None]]:
    """Gives a function to call after each of ``total`` pieces of work, with a word on how it stands.

    In a log there is no bar, but a line after every tenth of them.
    """
    with make_progress(console) as progress:
        bar = progress.add_task(label, total=total, rate="")

        def advance(note: str = "") -> None:
            done = progress.tasks[0].completed + 1
            rate = done / max(progress.tasks[0].elapsed or 0.0, 1e-9)
            show(progress, bar, int(done), f"{rate:.2f}/s{note}")

        yield advance


def show(progress: Progress, bar: TaskID, done: int, rate: str) -> None:
    """Move a bar, or write a line where there is none and another tenth is done."""
    task = progress.tasks[bar]
    before, total = int(task.completed), int(task.total or 1)
    progress.update(bar, completed=done, rate=rate)
    if progress.console.is_terminal or 10 * done // total <= 10 * before // total:
        return
    minutes, seconds = divmod(round((total - done) * (task.elapsed or 0.0) / done), 60)
    line = f"{task.description}: {done} of {total}, {rate}, {minutes}:{seconds:02d} left"
    progress.console.print(escape(line), highlight=False, soft_wrap=True)
