"""Small random inputs for PTR, and a PTR without warm-up to look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from ptr_robot.method import PTR, ChunkForward, PTRConfig, Samples, ScorerConfig, WeightConfig

CONTEXT_DIM, ACTION_DIM, TARGET_DIM, STATE_DIM, LENGTH = 7, 5, 6, 3, 4
NO_WARMUP = WeightConfig(warmup_steps=0)


def make_ptr(config: PTRConfig | None = None, **extra: Any) -> PTR:
    config = config or PTRConfig(scorer=ScorerConfig(hidden_dim=8), weights=NO_WARMUP)
    widths = {"context_dim": CONTEXT_DIM, "action_dim": ACTION_DIM, "target_dim": TARGET_DIM, "state_dim": STATE_DIM}
    return PTR(config, **(widths | extra))


def make_batch(
    count: int = 10, *, seed: int = 0, valid: torch.Tensor | None = None, first_id: int = 0, grad: bool = False
) -> tuple[ChunkForward, Samples]:
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random).requires_grad_(grad)

    chunk = ChunkForward(
        action_losses=(torch.rand(count, generator=random) + 0.1).requires_grad_(grad),
        contexts=normal(count, CONTEXT_DIM),
        action_tokens=normal(count, LENGTH, ACTION_DIM),
        action_states=normal(count, LENGTH, ACTION_DIM),
    )
    samples = Samples(
        targets=F.normalize(torch.randn(count, TARGET_DIM, generator=random), dim=1),
        has_target=torch.rand(count, generator=random) < 0.8 if valid is None else valid,
        sample_ids=torch.arange(first_id, first_id + count),
        episode_ids=torch.arange(first_id, first_id + count) // 2,
        task_ids=torch.arange(count) % 2,
        states=torch.randn(count, STATE_DIM, generator=random),
        source_ids=torch.arange(count) % 3,
    )
    return chunk, samples


@pytest.fixture
def trained() -> Callable[[PTR, int], PTR]:
    """Runs a few optimiser steps, so that scores, queue and averages are no longer at their start."""

    def train(ptr: PTR, steps: int = 4) -> PTR:
        optimizer = torch.optim.AdamW([p for p in ptr.parameters() if p.requires_grad], lr=1e-2)
        for step in range(steps):
            optimizer.zero_grad()
            ptr(*make_batch(seed=step, first_id=10 * step)).loss.backward()
            optimizer.step()
            ptr.update()
        return ptr

    return train
