"""Settings of screening, with the help texts of their flags."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptr_robot.errors import ConfigError
from ptr_robot.method.mixture import POPULATIONS_VERSION

# Raised whenever equal data get other scores or weights: what was recorded of another version is run again.
SCREENING_VERSION = f"3 with populations {POPULATIONS_VERSION}"


@dataclass(frozen=True)
class ScreeningConfig:
    """Training of the held-out scorers, and the share of the data that is always kept."""

    # Optimiser steps of a scorer at most; training stops early where held-out scores are best.
    steps: int = 500
    # Chunks in an optimiser step, each a candidate for all others.
    batch_size: int = 256
    # Mismatched recordings that each chunk is scored against.
    pool_size: int = 1024
    # Folds of episodes; an episode is scored by heads that were not trained on its fold.
    num_folds: int = 5
    # Width of the scorers' hidden layers.
    hidden_dim: int = 256
    # Temperature of the identification posteriors.
    temperature: float = 0.1
    # Learning rate of the scorers.
    lr: float = 1e-3
    # Weight decay of the scorers.
    weight_decay: float = 1e-2
    # Share of each task's episodes that is kept at least: over episodes, q/p never exceeds four times its inverse.
    keep_share: float = 0.25
    # Chunks of the dataset that are scored at most, spread evenly over episodes.
    max_chunks: int = 20_000
    # Seed of the scorers' initial values, their batches and the candidate pools.
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "hidden_dim", "max_chunks"):
            if getattr(self, name) < 1:
                raise ConfigError(f"screening.{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("batch_size", "pool_size", "num_folds"):
            if getattr(self, name) < 2:
                raise ConfigError(f"screening.{name} is {getattr(self, name)}; it must be at least 2")
        if not 0 < self.keep_share <= 1:
            raise ConfigError(f"screening.keep_share is {self.keep_share}; it must be in (0, 1]")
        for name in ("temperature", "lr"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"screening.{name} is {getattr(self, name)}; it must be above 0")
        if not 0 <= self.weight_decay < math.inf:
            raise ConfigError(f"screening.weight_decay is {self.weight_decay}; it must be zero or more")
