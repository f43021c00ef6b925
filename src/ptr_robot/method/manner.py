"""The manner of a chunk: how far it got and how roughly it moved, whatever it did.

A hand that stops goes on in the right direction afterwards, and one that trembles ends where it should: neither shows
in what was done, both show in how. Two numbers a chunk, on a logarithmic scale, since twice as fast is as far from
usual as half as fast.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LEAST = 0.05  # of what is usual: standing still is far below usual, and not infinitely so


def manners(changes: Tensor, chunks: Tensor) -> Tensor:  # (N, Dy), (N, L, A) -> (N, 2)
    """Pace, the length of the change, and roughness, that of the recorded actions' second differences."""
    pace = changes.square().sum(dim=1).sqrt()
    jumps = chunks[:, 2:] - 2 * chunks[:, 1:-1] + chunks[:, :-2]
    return torch.stack([_against_usual(pace), _against_usual(jumps.square().sum(dim=(1, 2)).sqrt())], dim=1)


def _against_usual(sizes: Tensor) -> Tensor:  # (N,) -> (N,)
    """Logarithm of the size over the median one, or over the mean where most are zero."""
    usual = sizes.median()
    if usual == 0:
        usual = sizes.mean()
    return (sizes / usual.clamp_min(torch.finfo(sizes.dtype).tiny) + _LEAST).log()
