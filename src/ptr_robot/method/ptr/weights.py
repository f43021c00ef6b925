"""The map from score to weight, and the bounds it guarantees (Section 4.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ptr_robot.method.ptr.config import WeightConfig


class WeightMap(Protocol):
    """Turns scores into weights within stated bounds; implement this to try another map."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest weight that any score can get."""
        ...

    def __call__(self, scores: Tensor, beta: float) -> Tensor:
        """Weights of shape (N,) for scores of shape (N,), both float32."""
        ...


@dataclass(frozen=True)
class ExponentialWeightMap:
    """1 + α(clip(exp(T/β)) − 1): the paper's conservative weight (Eq. weight)."""

    alpha: float = 1.0
    w_min: float = 0.25
    w_max: float = 4.0

    @staticmethod
    def from_config(config: WeightConfig) -> ExponentialWeightMap:
        """The map that the configuration describes."""
        return ExponentialWeightMap(config.alpha, config.w_min, config.w_max)

    @property
    def bounds(self) -> tuple[float, float]:
        """The effective bounds (Eq. app_eff_bounds)."""
        if self.alpha == 0:
            return 1.0, 1.0
        return 1 + self.alpha * (self.w_min - 1), 1 + self.alpha * (self.w_max - 1)

    def __call__(self, scores: Tensor, beta: float) -> Tensor:
        """Exponentiate, clip and mix with one."""
        if self.alpha == 0:
            return torch.ones_like(scores)
        clipped = torch.exp(scores / beta).clamp(self.w_min, self.w_max)
        # 1 + α (w − 1), in a form that keeps its precision where the weight is small.
        return clipped if self.alpha == 1 else (1 - self.alpha) + self.alpha * clipped


def kl_bound(bounds: tuple[float, float]) -> float:
    """log(w̄ / w̲), which KL(q‖p) cannot exceed; infinite where the lower bound is zero."""
    low, high = bounds
    return math.log(high / low) if low > 0 and math.isfinite(high) else math.inf


def discount_weights(weights: Tensor, offsets: Tensor, discount: float) -> Tensor:
    """Shrink w − 1 by γ^Δ', so that far consequences count less and the bounds still hold."""
    return 1 + discount**offsets * (weights - 1)
