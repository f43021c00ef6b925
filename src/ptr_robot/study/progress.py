"""Progress on the terminal: what is done, how fast it goes, and when it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


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
    )


@contextlib.contextmanager
def counting(label: str, total: int, console: Console) -> Iterator[Callable[[str], None]]:
    """Gives a function to call after each of ``total`` pieces of work, with a word on how it stands."""
    with make_progress(console) as progress:
        bar = progress.add_task(label, total=total, rate="")

        def advance(note: str = "") -> None:
            progress.advance(bar)
            task = progress.tasks[0]
            rate = task.completed / max(task.elapsed or 0.0, 1e-9)
            progress.update(bar, rate=f"{rate:.2f}/s{note}")

        yield advance
