"""Gradient accumulation with one denominator: Σw over every micro-batch of a step."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ptr_robot.method.ptr.objective import positive
from ptr_robot.method.types import PTROutput


class WeightedAccumulation:
    """Backpropagates micro-batches so that the action term is Σwℓ / Σw over all of them.

    Σw is known only after the last micro-batch, so each one backpropagates its sums and ``finish`` divides. The
    auxiliary terms are divided by the same Σw, hence multiplied beforehand by the mean weight expected from earlier
    steps: their coefficients are off by (expected / actual mean weight), most of all in the first steps after warm-up,
    and are means over micro-batches. The action term is exact.
    """

    def __init__(self, expected_mean_weight: float) -> None:
        self._expected_mean_weight = expected_mean_weight
        self._weight_sum: Tensor | None = None

    def loss(self, output: PTROutput) -> Tensor:
        """What to backpropagate for one micro-batch; gradients of several add up."""
        added = output.weight_sum.detach()
        self._weight_sum = added if self._weight_sum is None else self._weight_sum + added
        scale = self._expected_mean_weight * output.sample_count
        return output.weighted_action_sum + scale * output.auxiliary_loss

    @torch.no_grad()
    def finish(self, parameters: Iterable[nn.Parameter]) -> None:
        """Divide the gradients by the step's Σw; call it before clipping and the optimiser's step."""
        if self._weight_sum is None:
            return
        weight_sum = positive(self._weight_sum)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.div_(weight_sum.to(parameter.grad))
        self._weight_sum = None
