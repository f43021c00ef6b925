"""Weights applied by the sampler: segments are drawn in proportion to their episode's weight, and the loss is plain.

The expectation is that of the weighted loss, and no part of a batch is spent on samples that hardly count. An episode's
weight is the factor that was decided before the first step times the running mean of the weights that PTR has given to
its chunks; chunks of an episode are drawn alike, so that mean does not depend on how often they were drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.data.segments.loader import SegmentLoader
from ptr_robot.train.config import RunPlan

WEIGHT_COLUMN, COUNT_COLUMN = 3, 0  # of the ledger's sums


def draw_weights(given: Tensor | None, totals: Tensor | None, num_episodes: int) -> NDArray[np.float64]:  # (episodes,)
    """What each episode is drawn by; one where nothing is known of it."""
    weights = torch.ones(num_episodes, dtype=torch.float64)
    if given is not None:
        weights *= given.double().cpu()
    if totals is not None:
        counts = totals[:, COUNT_COLUMN].cpu()
        weights *= torch.where(counts > 0, totals[:, WEIGHT_COLUMN].cpu() / counts.clamp_min(1), 1.0)
    drawn: NDArray[np.float64] = weights.numpy()
    return drawn


def batches_of_a_draw(plan: RunPlan) -> int | None:
    """Until the weights' next record where they move in training; None: they do not, and a draw lasts an epoch."""
    if not plan.ptr.scorer.enabled:
        return None
    return plan.log_freq * plan.config.gradient_accumulation_steps


def drawn_batches(
    loader: SegmentLoader,
    given: Tensor | None,  # (episodes,)
    totals: Callable[[], Tensor],  # the ledger's sums over all ranks
    max_batches: int | None,
) -> Iterator[SegmentBatch]:
    """Epoch after epoch, each drawn by the weights as they are when it begins; every rank at the same time.

    An epoch that a resumed run is in the middle of keeps the weights that it was drawn by: they are in its state.
    """
    while True:
        if not loader.batches_done:
            loader.draw_by(draw_weights(given, totals(), loader.dataset.num_episodes), max_batches)
        yield from loader
