"""Cross-fitting: an episode belongs to one fold, trains every head but its own, and is scored by its own."""

from __future__ import annotations

import torch
from torch import Tensor

from ptr_robot.method.hashing import hash_integers


def assign_folds(episode_ids: Tensor, num_folds: int, seed: int = 0) -> Tensor:  # (N,) -> (N,) int64
    """The fold of each episode: a random order within every block of ``num_folds`` consecutive episodes.

    Any run of consecutive episodes is spread evenly, so folds stay balanced within tasks and sources recorded one
    after the other, and an operator who recorded every second episode does not end up in one fold.
    """
    block = torch.div(episode_ids, num_folds, rounding_mode="floor").unsqueeze(1)
    place = torch.arange(num_folds, device=episode_ids.device)
    order = hash_integers(seed, block, place).argsort(dim=1)  # (N, num_folds)
    return order.gather(1, (episode_ids % num_folds).unsqueeze(1)).squeeze(1)


def training_shares(folds: Tensor, num_folds: int) -> Tensor:  # (N,) -> (F, N)
    """How much each sample's scorer loss counts for each head; the shares of a sample sum to one."""
    if num_folds == 1:
        return torch.ones(1, folds.shape[0], device=folds.device)
    heads = torch.arange(num_folds, device=folds.device).unsqueeze(1)
    return (heads != folds).float() / (num_folds - 1)
