"""Noised actions to tokens, and hidden states back to actions: shared by the flow and diffusion heads."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ptr_robot.data.segments.batch import UNIFIED_DIM

SHORTEST_PERIOD = 4e-3
LONGEST_PERIOD = 4.0
LARGEST_SCALE = 10_000.0


class ActionEmbedder(nn.Module):
    """Linear on the action, joined with a sinusoidal embedding of its noise level, then an MLP."""

    def __init__(self, width: int, num_time_buckets: int = 0) -> None:
        super().__init__()
        self.width = width
        self.num_time_buckets = num_time_buckets  # 0: σ enters as it is
        self.project = nn.Linear(UNIFIED_DIM, width)
        self.mix = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, actions: Tensor, sigmas: Tensor) -> Tensor:  # (N, L, 200), (N,) -> (N, L, D)
        """Tokens of actions at noise level σ; σ = 1 is clean."""
        projected = self.project(actions)
        times = self._time_features(sigmas).to(projected.dtype).unsqueeze(1).expand_as(projected)
        tokens: Tensor = self.mix(torch.cat([projected, times], dim=-1))
        return tokens

    def _time_features(self, sigmas: Tensor) -> Tensor:  # (N,) -> (N, D)
        if self.num_time_buckets:
            return bucket_sinusoid((sigmas.float() * self.num_time_buckets).trunc(), self.width)
        return sinusoid(sigmas, self.width)


class ActionOutput(nn.Sequential):
    """MLP from hidden states to the 200 slots."""

    def __init__(self, width: int, activation: str = "silu") -> None:
        super().__init__(nn.Linear(width, width), create_activation(activation), nn.Linear(width, UNIFIED_DIM))


def create_activation(name: str) -> nn.Module:
    """What stands between two layers of an MLP."""
    return nn.ReLU() if name == "relu" else nn.SiLU()


def sinusoid(values: Tensor, width: int) -> Tensor:  # (N,) -> (N, width)
    """Sines and cosines of values in [0, 1], with periods in geometric progression."""
    exponents = torch.linspace(0, 1, width // 2, device=values.device)
    periods = SHORTEST_PERIOD * (LONGEST_PERIOD / SHORTEST_PERIOD) ** exponents
    angles = values.float().unsqueeze(1) * (2 * math.pi / periods)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def bucket_sinusoid(buckets: Tensor, width: int) -> Tensor:  # (N,) -> (N, width)
    """Sines and cosines of whole numbers, as in the original transformer: bucket · 10000^(−i / (width / 2))."""
    exponents = torch.arange(width // 2, device=buckets.device) / (width // 2)
    angles = buckets.float().unsqueeze(1) * torch.exp(-math.log(LARGEST_SCALE) * exponents)
    return torch.cat([angles.sin(), angles.cos()], dim=1)
