"""Manifold-preserving gating (MPG): action tokens pass through the language model's space, pulled towards clean ones.

How far the tokens are from a clean chunk is measured by random projections; the nearer they are, the more of an
enhancement is added.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ptr_robot.policy.being_h.config import GatingConfig


class Gating(nn.Module):
    """f' = f + λ W (g o) with o = W_o f and the gate g = exp(−D / temperature) of each sample."""

    def __init__(self, config: GatingConfig, context_width: int, action_width: int) -> None:
        super().__init__()
        self.config = config
        self.to_context = nn.Linear(action_width, context_width)
        self.to_action = nn.Linear(context_width, action_width)
        self.observe = nn.Linear(context_width, context_width)
        self.observe_clean = nn.Linear(action_width, context_width)
        self.enhance = nn.Linear(context_width, context_width)

    def forward(
        self,
        tokens: Tensor,  # (N, L, Da) of noised actions
        clean: Tensor,  # (N, L, Da) of clean ones, at bucket 0
        directions: Tensor,  # (N, K, Du) of any length above 0
    ) -> Tensor:  # (N, L, Da)
        """The tokens that take the place of ``tokens``."""
        features = self.to_context(tokens)  # (N, L, Du)
        with_state = F.pad(features, (0, 0, 1, 0))  # a row of zeros stands for the state
        observed = self.observe(with_state)  # (N, 1 + L, Du)
        distances = sliced_distances(observed, self.observe_clean(clean), directions)
        # Cuts the path from the loss into the distance, as the checkpoints were trained: the gate is a weight.
        gates = torch.exp(-distances / self.config.temperature).detach().view(-1, 1, 1)
        enhanced = features + self.config.strength * self.enhance(gates * observed)[:, 1:]
        guided: Tensor = self.to_action(enhanced)
        return guided


def sliced_distances(observed: Tensor, clean: Tensor, directions: Tensor) -> Tensor:  # -> (N,)
    """D: the squared distance of each row to the clean rows' mean, along random unit directions."""
    rows, centre = (F.layer_norm(features, features.shape[-1:]) for features in (observed, clean))
    unit = F.normalize(directions.to(rows.dtype), dim=-1).transpose(1, 2)  # (N, Du, K)
    along = rows @ unit - centre.mean(dim=1, keepdim=True) @ unit  # (N, 1 + L, K)
    return along.square().mean(dim=(1, 2))
