"""Sums and gathers over processes; with one process each of them is the identity."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class RankLayout:
    """How the rows of this step's global batch lie on the ranks."""

    rank: int
    counts: tuple[int, ...]  # rows on each rank

    @property
    def world_size(self) -> int:
        """How many processes train together."""
        return len(self.counts)

    @property
    def first_row(self) -> int:
        """Where this rank's rows begin in the global batch."""
        return sum(self.counts[: self.rank])

    @property
    def total_rows(self) -> int:
        """The size of the global batch."""
        return sum(self.counts)


def is_distributed() -> bool:
    """Whether torch.distributed runs more than one process."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def current_layout(num_rows: int, device: torch.device) -> RankLayout:
    """The layout where this rank holds ``num_rows``; every rank must ask at the same time."""
    rows = gather_flags(torch.tensor([num_rows], device=device))
    return RankLayout(dist.get_rank() if len(rows) > 1 else 0, tuple(row[0] for row in rows))


def gather_flags(flags: Tensor) -> list[list[int]]:  # (k,) int64 -> one list a rank
    """Every rank's flags, so that all ranks take the same decision; waits for the device once."""
    if not is_distributed():
        return [flags.tolist()]
    gathered = [torch.empty_like(flags) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, flags)
    return [list(row) for row in torch.stack(gathered).tolist()]


def gather_rows(rows: Tensor, layout: RankLayout) -> Tensor:  # (n_rank, ...) -> (n_total, ...)
    """All ranks' rows in rank order, as constants; ranks may hold different numbers of rows."""
    rows = rows.detach()
    if layout.world_size == 1:
        return rows
    most = max(layout.counts)
    padded = rows.new_zeros(most, *rows.shape[1:])
    padded[: rows.shape[0]] = rows
    gathered = [torch.empty_like(padded) for _ in layout.counts]
    dist.all_gather(gathered, padded)
    return torch.cat([part[:count] for part, count in zip(gathered, layout.counts, strict=True)])


def sum_over_ranks(values: Tensor) -> Tensor:  # (k,) -> (k,)
    """The global sums of a few numbers, in one collective, as constants."""
    values = values.detach().clone()
    if is_distributed():
        dist.all_reduce(values)
    return values
