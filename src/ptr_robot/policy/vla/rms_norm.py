"""Qwen3's root-mean-square norm with a backward pass of its own.

Left to autograd the norm is a chain of small operations that keeps the input and the normed values, and goes over them
again and again on the way back. It is called four times a layer, stream and pass: written out, it takes about half the
time on a processor and keeps the normed values alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def rms_norm(norm: Any, tokens: Tensor) -> Tensor:  # (..., D) -> (..., D)
    """What the Qwen3RMSNorm ``norm`` makes of the tokens, in the same precision."""
    normed: Tensor = _RMSNorm.apply(tokens, norm.weight, norm.variance_epsilon)  # type: ignore[no-untyped-call]
    return normed


class _RMSNorm(torch.autograd.Function):
    """y = w x̂ with x̂ = x r and r = (mean x² + ε)^(−1/2), over the last dimension."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight: Tensor, eps: float) -> Tensor:  # (..., D), (D,)
        """Statistics in float32; x̂ in the precision of the tokens."""
        wide = tokens.float()
        squares = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square_()
        inverse = squares.div_(tokens.shape[-1]).add_(eps).rsqrt_()  # (..., 1)
        normed = (wide * inverse).to(tokens.dtype)
        ctx.save_for_backward(normed, inverse, weight)
        scaled: Tensor = weight * normed
        return scaled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """dx = r (w dy − x̂ mean(x̂ w dy)) and dw = Σ x̂ dy, in float32."""
        normed, inverse, weight = ctx.saved_tensors
        gradient = gradients[0].float()
        product = gradient * normed
        for_weight = product.flatten(0, -2).sum(dim=0).to(weight.dtype) if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[0]:
            return None, for_weight, None
        shared = product.mul_(weight).mean(dim=-1, keepdim=True)
        for_tokens = (gradient * weight).addcmul_(normed, shared, value=-1).mul_(inverse)
        return for_tokens.to(normed.dtype), for_weight, None
