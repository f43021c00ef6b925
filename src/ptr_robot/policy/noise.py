"""Random numbers of a batch, keyed by sample: what a sample draws depends on its own key and on nothing around it.

A chunk has the same noise alone, in any batch and on any rank, and there is no generator whose state would have to be
saved. Draws are counter-based: a hash of key, purpose and place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from ptr_robot.errors import ShapeError
from ptr_robot.method.hashing import hash_integers


class Purpose(IntEnum):
    """What a draw is for; draws for different purposes are independent."""

    TIME = 1  # noise levels in training
    ACTIONS = 2  # the noise that actions are mixed with, in training, and start from, in sampling
    IMAGES = 3  # augmentation
    CHOICE = 4  # sampling from a distribution over bins
    REFINEMENT = 5  # the noise that a second sampling starts from
    DIRECTIONS = 6  # random projections


@dataclass(frozen=True)
class Noise:
    """One stream of random numbers for each of N samples."""

    keys: Tensor  # (N,) int64

    @staticmethod
    def keyed(*parts: Tensor | int) -> Noise:
        """Keys from what identifies a draw, such as (seed, step, sample ids); at least one part is a tensor."""
        return Noise(hash_integers(*parts))

    @staticmethod
    def join(parts: Sequence[Noise]) -> Noise:
        """One batch of them all, one after the other."""
        return Noise(torch.cat([part.keys for part in parts]))

    def check(self, count: int) -> None:
        """Refuse another number of samples, which broadcasting might let through."""
        if self.keys.shape != (count,):
            raise ShapeError(
                f"the noise has keys of shape {tuple(self.keys.shape)} for {count} samples; give one key a sample"
            )

    def uniform(self, purpose: int, places: Tensor) -> Tensor:  # (...) int64 -> (N, ...) float32 in [0, 1)
        """A 24-bit uniform number for each place; the same place always has the same number."""
        return (self._bits(purpose, places) >> 8).float() / (1 << 24)

    def normal(self, purpose: int, places: Tensor) -> Tensor:  # (...) int64 -> (N, ...) float32
        """A standard normal number for each place, by Box and Muller's method; at most 6.7 in size."""
        radius = self._bits(purpose, 2 * places).add_(1).float().div_(1 << 32).log_().mul_(-2).sqrt_()
        angle = self._bits(purpose, 2 * places + 1).float().mul_(2 * math.pi / (1 << 32))
        return radius.mul_(angle.cos_())

    def _bits(self, purpose: int, places: Tensor) -> Tensor:  # (...) -> (N, ...) int64 in [0, 2^32)
        """The key enters before and after the place: streams that merely began nearby would be shifted copies."""
        shape = (-1, *[1] * places.ndim)
        first, last = (hash_integers(self.keys, purpose, word).view(shape) for word in (0, 1))
        return hash_integers(first, places.to(self.keys.device), last)


def places(*shape: int, device: torch.device | str = "cpu") -> Tensor:  # shape, int64
    """The places of an array, counted row by row."""
    return torch.arange(math.prod(shape), device=device).view(shape)
