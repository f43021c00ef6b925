"""The candidate pool: the matched target among mismatched ones in the batch and a queue (Section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ptr_robot.method.distributed import RankLayout, gather_rows
from ptr_robot.method.hashing import hash_uniform
from ptr_robot.method.ptr.config import PoolConfig
from ptr_robot.method.types import Samples


@dataclass(frozen=True)
class TargetRows:
    """Targets of the global batch with what the pool must know of each; the same on every rank."""

    targets: Tensor  # (G, Dy + Dx) of unit length, zero where not valid
    valid: Tensor  # (G,) bool
    sample_ids: Tensor  # (G,) int64
    task_ids: Tensor  # (G,) int64
    states: Tensor  # (G, S) float32

    @staticmethod
    def gather(
        samples: Samples,
        layout: RankLayout,
        *,
        state_dim: int,
        eps: float,
        extra: Tensor | None = None,  # (N, Dx) what channels beyond the consequence identify, of unit length
    ) -> TargetRows:
        """Collect the rows of all ranks, L2-normalised: one gather of floats, one of integers."""
        valid = samples.has_target
        count = valid.shape[0]
        targets = torch.where(valid.unsqueeze(1), samples.targets.float(), 0.0)
        targets = F.normalize(targets, dim=1, eps=eps)
        if extra is not None:
            targets = torch.cat([targets, torch.where(valid.unsqueeze(1), extra, 0.0)], dim=1)
        states = samples.states if samples.states is not None else targets.new_zeros(count, state_dim)
        tasks = samples.task_ids if samples.task_ids is not None else torch.zeros_like(samples.sample_ids)
        floats = gather_rows(torch.cat([targets, states.float()], dim=1), layout)
        integers = gather_rows(torch.stack([valid.long(), samples.sample_ids, tasks], dim=1), layout)
        width = targets.shape[1]
        return TargetRows(
            targets=floats[:, :width],
            valid=integers[:, 0].bool(),
            sample_ids=integers[:, 1],
            task_ids=integers[:, 2],
            states=floats[:, width:],
        )


@dataclass(frozen=True)
class Candidates:
    """What each of the rank's ``N`` samples is identified among: ``C`` shared targets and who may see which."""

    targets: Tensor  # (C, Dy) the global batch, then the queue
    positive_column: Tensor  # (N,) int64: where each sample's own target is
    is_negative: Tensor  # (N, C) bool
    is_same_task: Tensor | None = None  # (N, C) bool; None: nobody asks

    def of_channel(self, columns: slice, *, other_tasks_only: bool) -> Candidates:
        """The same candidates by what one channel identifies; samples of one task share their instruction."""
        is_negative = self.is_negative
        if other_tasks_only:
            assert self.is_same_task is not None
            is_negative = is_negative & ~self.is_same_task
        return Candidates(self.targets[:, columns], self.positive_column, is_negative)

    @property
    def counts(self) -> Tensor:  # (N,) int64
        """|Y_t|: the negatives and the matched target."""
        return self.is_negative.sum(dim=1) + 1


class TargetQueue(nn.Module):
    """A ring of the latest targets with their samples' identities; filled with gathered rows, so equal on all ranks."""

    targets: Tensor
    sample_ids: Tensor
    task_ids: Tensor
    states: Tensor
    filled: Tensor

    def __init__(self, size: int, *, target_dim: int, state_dim: int) -> None:
        super().__init__()
        self.size = size
        self.next_slot = 0
        self.register_buffer("targets", torch.zeros(size, target_dim))
        self.register_buffer("sample_ids", torch.zeros(size, dtype=torch.int64))
        self.register_buffer("task_ids", torch.zeros(size, dtype=torch.int64))
        self.register_buffer("states", torch.zeros(size, state_dim))
        self.register_buffer("filled", torch.zeros(size, dtype=torch.bool))

    @torch.no_grad()
    def push(self, rows: TargetRows) -> None:
        """Put the valid rows in, oldest out; of more rows than the queue holds, the last ones stay."""
        keep = rows.valid.nonzero().squeeze(1)[-self.size :] if self.size else rows.valid.new_zeros(0).long()
        slots = (self.next_slot + torch.arange(len(keep), device=keep.device)) % max(self.size, 1)
        self.targets[slots] = rows.targets[keep].to(self.targets.dtype)
        self.sample_ids[slots] = rows.sample_ids[keep]
        self.task_ids[slots] = rows.task_ids[keep]
        self.states[slots] = rows.states[keep].to(self.states.dtype)
        self.filled[slots] = True
        self.next_slot = (self.next_slot + len(keep)) % max(self.size, 1)

    def get_extra_state(self) -> Tensor:
        """The place of the next entry."""
        return torch.tensor(self.next_slot)

    def set_extra_state(self, state: Tensor) -> None:
        """Take back what ``get_extra_state`` gave."""
        self.next_slot = int(state)


class CandidatePool(nn.Module):
    """Builds each sample's candidates without ever copying a target per sample."""

    def __init__(self, config: PoolConfig, *, target_dim: int, state_dim: int) -> None:
        super().__init__()
        self.config = config
        self.state_dim = state_dim
        self.queue = TargetQueue(config.queue_size, target_dim=target_dim, state_dim=state_dim)

    @torch.no_grad()  # the pool is data: neither the gather nor the queue carries gradients
    def forward(self, rows: TargetRows, layout: RankLayout, *, hard_ratio: float, step: int) -> Candidates:
        """The candidates of this rank's rows, in the rows' order."""
        own = slice(layout.first_row, layout.first_row + layout.counts[layout.rank])
        in_batch = rows.valid & (rows.sample_ids != rows.sample_ids[own].unsqueeze(1))  # (N, G)
        if not self.config.cross_rank:
            column = torch.arange(layout.total_rows, device=in_batch.device)
            in_batch = in_batch & (column >= own.start) & (column < own.stop)
        queued = self.draw(rows.sample_ids[own], rows.task_ids[own], rows.states[own], hard_ratio=hard_ratio, step=step)
        task_ids = torch.cat([rows.task_ids, self.queue.task_ids])
        return Candidates(
            is_same_task=rows.task_ids[own].unsqueeze(1) == task_ids,
            targets=torch.cat([rows.targets, self.queue.targets.float()]),
            positive_column=torch.arange(own.start, own.stop, device=in_batch.device),
            is_negative=torch.cat([in_batch, queued], dim=1),
        )

    def draw(
        self,
        sample_ids: Tensor,  # (N,)
        task_ids: Tensor,  # (N,)
        states: Tensor,  # (N, S)
        *,
        hard_ratio: float,
        step: int,
    ) -> Tensor:  # (N, Q) bool
        """Each sample's queue negatives: never the sample itself, not even from an earlier epoch.

        A share ``hard_ratio`` is of the same task and nearest in state, as far as there are any; the rest is random.
        """
        queue = self.queue
        eligible = queue.filled & (queue.sample_ids != sample_ids.unsqueeze(1))  # (N, Q)
        budget = self.config.max_queue_negatives
        if budget >= queue.size:
            return eligible
        slots = torch.arange(queue.size, device=sample_ids.device)
        ranks = hash_uniform(self.config.seed, step, sample_ids.unsqueeze(1), slots)
        ranks = ranks.masked_fill(~eligible, float("inf"))
        num_hard = round(hard_ratio * budget)
        if num_hard > 0:
            same_task = eligible & (queue.task_ids == task_ids.unsqueeze(1))
            distances = torch.cdist(states, queue.states.float()) if self.state_dim else ranks
            hard = _lowest(distances.masked_fill(~same_task, float("inf")), num_hard)
            ranks = ranks.masked_fill(hard, -1.0)
        return _lowest(ranks, budget)


def _lowest(values: Tensor, count: int) -> Tensor:  # (N, Q) -> (N, Q) bool
    """Marks the ``count`` lowest finite values of each row."""
    lowest, columns = values.topk(min(count, values.shape[1]), dim=1, largest=False)
    return torch.zeros_like(values, dtype=torch.bool).scatter_(1, columns, lowest.isfinite())
