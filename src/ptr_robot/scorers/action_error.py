"""Cross-validated action error: how badly a small policy that never saw an episode predicts its actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ptr_robot.errors import DataError
from ptr_robot.scorers.base import SuspicionRule
from ptr_robot.scorers.registry import register_scorer
from ptr_robot.scorers.tracks import EpisodeSet, Track, mean_by_owner, whole_chunks

NUM_FOLDS = 5
HIDDEN = 256
STEPS = 400
BATCH_SIZE = 256
LEARNING_RATE = 2e-3


@register_scorer
class ActionError(SuspicionRule):
    """Episodes whose actions a policy that was trained on the others does not predict."""

    name = "action-error"
    title = "action error"

    def suspicions(self, episodes: EpisodeSet) -> list[float]:
        """The held-out squared error."""
        return cross_validated_error(episodes.tracks, episodes.chunk_length, episodes.seed)


def cross_validated_error(tracks: Sequence[Track], chunk_length: int, seed: int) -> list[float]:
    """The mean squared error of each episode's chunks under a regressor trained on the other folds' episodes."""
    if len(tracks) < 2:
        raise DataError(f"cross-validation needs at least 2 episodes, there is {len(tracks)}")
    chunks = whole_chunks(tracks, chunk_length)
    tasks = nn.functional.one_hot(torch.from_numpy(chunks.tasks)).float()
    inputs = torch.cat([torch.from_numpy(chunks.states), tasks], dim=1)  # (N, Ds + tasks)
    targets = torch.from_numpy(chunks.actions)  # (N, L * Da)
    folds = torch.from_numpy(fold_of_tracks(tracks, seed)[chunks.owners])  # (N,)
    errors = torch.zeros(len(targets))
    for fold in range(NUM_FOLDS):
        is_held_out = folds == fold
        if not is_held_out.any():
            continue
        if is_held_out.all():
            raise DataError("cross-validation needs chunks of at least 2 episodes; only one is as long as a chunk")
        regressor = _fit(inputs[~is_held_out], targets[~is_held_out], seed + fold)
        with torch.no_grad():
            errors[is_held_out] = (regressor(inputs[is_held_out]) - targets[is_held_out]).square().mean(dim=1)
    return mean_by_owner(errors.double().numpy(), chunks.owners, len(tracks))


def fold_of_tracks(tracks: Sequence[Track], seed: int) -> NDArray[np.int64]:
    """A fold for each episode: every task's episodes are shuffled and dealt out in turn."""
    folds = np.zeros(len(tracks), dtype=np.int64)
    generator = np.random.default_rng(seed)
    dealt = 0
    for task in sorted({track.task for track in tracks}):
        places = generator.permutation([place for place, track in enumerate(tracks) if track.task == task])
        folds[places] = (dealt + np.arange(len(places))) % NUM_FOLDS
        dealt += len(places)
    return folds


def _fit(inputs: Tensor, targets: Tensor, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        regressor = nn.Sequential(
            nn.Linear(inputs.shape[1], HIDDEN),
            nn.GELU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.GELU(),
            nn.Linear(HIDDEN, targets.shape[1]),
        )
        optimiser = torch.optim.AdamW(regressor.parameters(), lr=LEARNING_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
        for _ in range(STEPS):
            rows = torch.randint(len(inputs), (BATCH_SIZE,))
            loss = nn.functional.mse_loss(regressor(inputs[rows]), targets[rows])
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            schedule.step()
    return regressor.eval()
