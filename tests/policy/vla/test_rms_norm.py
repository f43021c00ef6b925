"""The written-out norm is Qwen3's, gradients included."""

from __future__ import annotations

import pytest
import torch
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from ptr_robot.policy.vla.rms_norm import rms_norm
from tests.policy.conftest import generator


def make_norm(dtype: torch.dtype = torch.float32) -> Qwen3RMSNorm:
    norm = Qwen3RMSNorm(8)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(8, generator=generator(0)))
    return norm.to(dtype)


def run(function, norm: Qwen3RMSNorm, tokens: torch.Tensor) -> list[torch.Tensor]:
    """The result and both gradients."""
    tokens = tokens.clone().requires_grad_()
    result = function(tokens)
    pulled = torch.randn(result.shape, generator=generator(2)).to(result.dtype)
    return [result, *torch.autograd.grad(result, [tokens, norm.weight], pulled)]


@pytest.mark.parametrize("shape", [(5, 8), (3, 4, 8), (3, 4, 2, 8), (3, 0, 8)])
def test_values_and_gradients_are_those_of_qwen3(shape):
    norm, tokens = make_norm(), torch.randn(shape, generator=generator(1))
    expected = run(norm, norm, tokens)
    for value, wanted in zip(run(lambda x: rms_norm(norm, x), norm, tokens), expected, strict=True):
        torch.testing.assert_close(value, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weight_dtype", [torch.float32, torch.bfloat16])
def test_low_precision_has_the_same_types_and_nearly_the_same_values(weight_dtype):
    norm, tokens = make_norm(weight_dtype), torch.randn((3, 4, 8), generator=generator(1)).bfloat16()
    expected = run(norm, norm, tokens)
    for value, wanted in zip(run(lambda x: rms_norm(norm, x), norm, tokens), expected, strict=True):
        torch.testing.assert_close(value, wanted, rtol=3e-2, atol=3e-2)  # types are compared too


def test_a_frozen_weight_gets_no_gradient_and_constant_tokens_none():
    norm, tokens = make_norm(), torch.randn((2, 8), generator=generator(1))
    rms_norm(norm, tokens).sum().backward()
    assert norm.weight.grad is not None
    frozen = make_norm().requires_grad_(False)
    tokens.requires_grad_()
    rms_norm(frozen, tokens).sum().backward()
    assert frozen.weight.grad is None
    assert tokens.grad.abs().sum() > 0
