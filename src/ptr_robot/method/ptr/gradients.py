"""Passes that no gradient goes through, beside those that train the same parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def without_gradients() -> Iterator[None]:
    """``torch.no_grad``, for passes that come before the training pass of the same parameters.

    Under autocast a parameter is cast once and the cast is kept. One made here would have no gradient, and the training
    pass would be handed it: the parameter would never learn.
    """
    kept = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_autocast_cache_enabled(kept)
