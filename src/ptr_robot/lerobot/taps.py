"""What PTR reads from inside a policy's ordinary pass, and the losses it weighs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ptr_robot.method.distributed import sum_over_ranks


@contextmanager
def captured_inputs(module: nn.Module) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """The arguments of each call of ``module`` while the context lasts."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    handle = module.register_forward_pre_hook(
        lambda _module, arguments, keywords: calls.append((arguments, keywords)), with_kwargs=True
    )
    try:
        yield calls
    finally:
        handle.remove()


@contextmanager
def captured_outputs(module: nn.Module) -> Iterator[list[Any]]:
    """The result of each call of ``module`` while the context lasts."""
    results: list[Any] = []
    handle = module.register_forward_hook(lambda _module, _arguments, result: results.append(result))
    try:
        yield results
    finally:
        handle.remove()


@dataclass(frozen=True)
class Call:
    """One call of a method."""

    arguments: tuple[Any, ...]
    result: Any


@contextmanager
def recorded_calls(owner: Any, name: str) -> Iterator[list[Call]]:
    """Each call of ``owner``'s method while the context lasts: hooks do not see plain methods, nor ``.forward()``."""
    calls: list[Call] = []
    original, own = getattr(owner, name), vars(owner).get(name)

    def record(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        calls.append(Call(arguments, result))
        return result

    vars(owner)[name] = record
    try:
        yield calls
    finally:
        if own is None:
            del vars(owner)[name]
        else:
            vars(owner)[name] = own


def shrink(images: Tensor, pixels: int) -> Tensor:  # (B, 3, H, W)
    """Images whose longer side is ``pixels`` at most."""
    height, width = images.shape[-2:]
    scale = pixels / max(height, width)
    if scale >= 1:
        return images
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    return F.interpolate(images, size=size, mode="bilinear", antialias=True, align_corners=False)


def sample_losses(
    errors: Tensor, is_real_step: Tensor, *, over_valid_steps: bool
) -> Tensor:  # (N, L, D), (N, L) -> (N,)
    """One loss a sample whose mean over the batch is the base policy's own loss.

    That is a mean over the real steps of the whole batch (``over_valid_steps``), or over all steps with zeros on
    padding: either way each sample is divided by the same number, on every rank.
    """
    sums = (errors * is_real_step.unsqueeze(-1)).sum(dim=(1, 2))
    steps = _mean_real_steps(is_real_step) if over_valid_steps else errors.shape[1]
    return sums / (steps * errors.shape[2])


def _mean_real_steps(is_real_step: Tensor) -> Tensor:  # (N, L) -> ()
    """Real steps a sample in the global batch: by a rank's own mean its padding would decide what its samples count."""
    own_steps = is_real_step.sum()
    steps, samples = sum_over_ranks(torch.stack([own_steps, own_steps.new_tensor(len(is_real_step))]))
    mean: Tensor = steps.clamp_min(1) / samples
    return mean


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:  # (N, P, D), (N, P) -> (N, D)
    """The mean over the positions that count."""
    shares = mask / mask.sum(dim=1, keepdim=True).clamp_min(1)
    return (values * shares.unsqueeze(-1).to(values.dtype)).sum(dim=1)


class ChunkEmbedder(nn.Module):
    """E_t where a policy has no embedding of clean actions: each step through a linear map of its own.

    With one map for all steps the mean over them, which is what the scorer reads, would not know their order.
    """

    def __init__(self, chunk_length: int, action_dim: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(chunk_length, action_dim, width) / action_dim**0.5)
        self.bias = nn.Parameter(torch.zeros(chunk_length, width))

    def forward(self, actions: Tensor) -> Tensor:  # (N, L, D) -> (N, L, width)
        """Embed normalised actions."""
        return torch.einsum("nld,ldw->nlw", actions.to(self.weight.dtype), self.weight) + self.bias
