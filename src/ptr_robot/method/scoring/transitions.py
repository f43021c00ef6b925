"""Recorded chunks of a dataset, and the episodes that they belong to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ptr_robot.errors import NonFiniteError, ShapeError


@dataclass(frozen=True)
class Transitions:
    """``N`` recorded chunks of a dataset."""

    observations: Tensor  # (N, Do) what was observed before; must not carry the instruction
    changes: Tensor  # (N, Dy) what the observation changed by
    actions: Tensor  # (N, Dt) the recorded chunk
    task_ids: Tensor  # (N,) int64
    episode_ids: Tensor  # (N,) int64

    def without_constants(self) -> Transitions:
        """Without the columns that never change, such as the slots that no robot of the data has."""
        observations, changes, actions = (
            part[:, part.std(dim=0) > 0] for part in (self.observations, self.changes, self.actions)
        )
        return Transitions(observations, changes, actions, self.task_ids, self.episode_ids)

    def __post_init__(self) -> None:
        counts = {len(getattr(self, name)) for name in self.__dataclass_fields__}
        if len(counts) != 1:
            raise ShapeError(f"transitions have parts of different lengths: {sorted(counts)}")
        for name in ("observations", "changes", "actions"):
            if not getattr(self, name).isfinite().all():
                raise NonFiniteError(f"the transitions' {name} hold NaN or infinity; leave such chunks out")


@dataclass(frozen=True)
class Episodes:
    """Which chunks belong together."""

    ids: Tensor  # (E,) int64, ascending
    rows: Tensor  # (N,) int64: each chunk's place among the episodes
    num_chunks: Tensor  # (E,) int64

    @classmethod
    def of(cls, transitions: Transitions) -> Episodes:
        """All that have a chunk."""
        return cls(*torch.unique(transitions.episode_ids, return_inverse=True, return_counts=True))

    def means(self, values: Tensor) -> Tensor:  # (N, D) -> (E, D)
        """Over the chunks of each."""
        sums = torch.zeros(len(self.ids), values.shape[1]).index_add_(0, self.rows, values)
        return sums / self.num_chunks.unsqueeze(1)

    def first(self, values: Tensor) -> Tensor:  # (N,) -> (E,)
        """The value of each one's first chunk; most have one that all chunks share."""
        order = self.rows.argsort(stable=True)
        starts = self.num_chunks.cumsum(dim=0) - self.num_chunks
        return values[order[starts]]
