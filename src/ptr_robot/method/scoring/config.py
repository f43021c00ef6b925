"""Settings of screening."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptr_robot.errors import ConfigError
from ptr_robot.method.mixture import POPULATIONS_VERSION

# Raised where equal data come to be judged otherwise: what was recorded of another version is run again.
SCREENING_VERSION = f"3 with populations {POPULATIONS_VERSION}"


@dataclass(frozen=True)
class ScreeningConfig:
    """How much the heads learn, and how much stays at least."""

    # Of the heads' optimiser, at most: they stop where episodes that they never saw are told best.
    steps: int = 500
    # Chunks in a step, each a candidate for all others.
    batch_size: int = 256
    # Mismatched recordings that each chunk is told from in the end.
    pool_size: int = 1024
    # Of episodes; heads are asked about those that they never saw.
    num_folds: int = 5
    # Width of the heads.
    hidden_dim: int = 256
    # Of the identification posteriors.
    temperature: float = 0.1
    # Of the heads.
    lr: float = 1e-3
    # Of the heads.
    weight_decay: float = 1e-2
    # Of each task, the share that is kept at least: over episodes, q/p never exceeds four times its inverse.
    keep_share: float = 0.25
    # Chunks of the dataset that are looked at, evenly over episodes.
    max_chunks: int = 20_000
    # Of the heads and the pools.
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
