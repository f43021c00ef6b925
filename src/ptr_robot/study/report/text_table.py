"""A table as words in cells: the same for Markdown and for the terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from ptr_robot.eval.success_statistics import Interval

NOTHING = "–"
_HEADING = 11  # a longer one takes a line for each of its words


@dataclass(frozen=True)
class TextTable:
    """Columns, rows of as many cells, and what a reader must know beside them."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """As GitHub shows it."""
        lines = [_row(self.columns), _row(["---"] * len(self.columns)), *(_row(row) for row in self.rows)]
        heading = [f"**{self.title}**", ""] if self.title else []
        return "\n".join([*heading, *lines, *(["", self.note] if self.note else [])]) + "\n"

    def terminal(self) -> Table:
        """As rich prints it, without the title; the first column gives way where the terminal is narrow."""
        table = Table(box=None, pad_edge=False)
        table.add_column(self.columns[0], overflow="fold")
        for column in self.columns[1:]:
            heading = column if len(column) <= _HEADING else column.replace(" ", "\n")
            table.add_column(heading, no_wrap=True, justify="right")
        for row in self.rows:
            table.add_row(*map(Text, row))  # as it is: brackets are no markup
        return table


def rate(value: float | None) -> str:
    """``.62``; a whole 1 stays ``1.00``."""
    if value is None or math.isnan(value):
        return NOTHING
    text = f"{value:.2f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def signed(value: float) -> str:
    """``+.12``, ``−.03``."""
    text = f"{value:+.2f}".replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:+.2f}"
    return text.replace("-", "−")


def rate_with_interval(interval: Interval) -> str:
    """``.62 [.55, .69]``, or the value alone where nothing is known about it."""
    if math.isnan(interval.low):
        return rate(interval.estimate)
    return f"{rate(interval.estimate)} [{rate(max(0.0, interval.low))}, {rate(min(1.0, interval.high))}]"


def difference_with_interval(interval: Interval | None) -> str:
    """``+.12 [+.05, +.19]``."""
    if interval is None:
        return NOTHING
    if math.isnan(interval.low):
        return signed(interval.estimate)
    return f"{signed(interval.estimate)} [{signed(interval.low)}, {signed(interval.high)}]"


def share_with_interval(interval: Interval) -> str:
    """``75% [40, 110]``."""
    limits = "" if math.isnan(interval.low) else f" [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"
    return f"{interval.estimate:.0%}{limits}".replace("-", "−")


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
