"""Random numbers that depend on what is drawn for whom, and on nothing else.

A draw keyed by (seed, step, sample identity) is the same however the batch is ordered or split over processes, and
needs no generator state in a checkpoint.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF


def hash_integers(*parts: Tensor | int) -> Tensor:  # broadcast shape, int64 in [0, 2^32)
    """Mix integers of any number into one well-spread 32-bit integer each, elementwise with broadcasting."""
    mixed: Tensor | int = 0x9E3779B9
    for part in parts:
        folded = part ^ (part >> 32)
        mixed = _scramble((mixed * 31 + folded) & _MASK)
    if isinstance(mixed, int):
        return torch.tensor(mixed)
    return mixed


def hash_uniform(*parts: Tensor | int) -> Tensor:  # broadcast shape, float32 in [0, 1)
    """As ``hash_integers``, as 24-bit uniform floats (every value is exact in float32)."""
    return (hash_integers(*parts) >> 8).float() / (1 << 24)


def _scramble(value: Tensor | int) -> Tensor | int:
    """The 32-bit finaliser of MurmurHash3, in 64-bit arithmetic; works in the memory of the tensor that it is given."""
    value ^= value >> 16
    value *= 0x85EBCA6B
    value &= _MASK
    value ^= value >> 13
    value *= 0xC2B2AE35
    value &= _MASK
    value ^= value >> 16
    return value
