"""Adaptive scale control: keeps the posterior neither flat nor saturated (Section 4.5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ptr_robot.method.ptr.config import ControllerConfig

STATISTICS = ("accuracy", "margin", "score", "valid_ratio")


class ScaleController(nn.Module):
    """Tracks four moving averages and moves τ, β and the hard-negative ratio within their bounds.

    The paper writes one factor for τ and β alike; the traces in its text (τ to a quarter, β to four fifths) cannot come
    from that rule. The rule is kept as written.
    """

    averages: Tensor

    def __init__(self, config: ControllerConfig, *, temperature: float, beta: float) -> None:
        super().__init__()
        self.config = config
        self.temperature = temperature
        self.beta = beta
        self.hard_ratio = 0.0
        # NaN marks an average that has seen nothing yet: the first observation becomes its value.
        self.register_buffer("averages", torch.full((len(STATISTICS),), float("nan")))

    def observe(self, statistics: Tensor, has_valid: Tensor) -> None:  # (4,), ()
        """Fold one step's statistics into the averages, without waiting for the device."""
        momentum = self.config.momentum
        fresh = self.averages.isnan()
        moved = torch.where(fresh, statistics, momentum * self.averages + (1 - momentum) * statistics)
        # A step in which nothing was identified says nothing of accuracy, margin and score.
        moved[:3] = torch.where(has_valid, moved[:3], self.averages[:3])
        self.averages.copy_(moved)

    def adjust(self) -> None:
        """The update rule: two conditional branches, one interpolation, and the bounds."""
        config = self.config
        accuracy, margin = self.averages[:2].tolist()
        if not config.enabled or accuracy != accuracy:  # NaN: nothing seen yet
            return
        factor = 1.0
        if accuracy < config.weak_accuracy:
            factor = config.raise_factor
        elif accuracy > config.strong_accuracy and margin > config.strong_margin:
            factor = config.lower_factor
        self.temperature = _clip(self.temperature * factor, config.temperature_min, config.temperature_max)
        self.beta = _clip(self.beta * factor, config.beta_min, config.beta_max)
        span = config.hard_accuracy_high - config.hard_accuracy_low
        self.hard_ratio = config.hard_ratio_max * _clip((accuracy - config.hard_accuracy_low) / span, 0.0, 1.0)

    def get_extra_state(self) -> Tensor:  # (3,) float64
        """τ, β and the hard-negative ratio, as a tensor so that any state-dict format can hold them."""
        return torch.tensor([self.temperature, self.beta, self.hard_ratio], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Take back what ``get_extra_state`` gave."""
        self.temperature, self.beta, self.hard_ratio = state.tolist()


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
