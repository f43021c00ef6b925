"""Settings of screening, with the help texts of their flags."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.method.mixture import POPULATIONS_VERSION

# Raised whenever equal data get other scores or weights: what was recorded of another version is run again.
SCREENING_VERSION = f"3 with populations {POPULATIONS_VERSION}"
SCREENERS = ("quality", "heads")


@dataclass(frozen=True)
class ScreeningConfig:
    """What scores the episodes before training, and the share of the data that is always kept."""

    # quality: as ptr score does; heads: identification by trained heads alone, as version 0.1 did.
    scorer: str = "quality"
    # quality: share of good episodes that may be left out by mistake.
    max_false_exclusions: float = 0.05
    # heads: optimiser steps of a scorer at most; training stops early where held-out scores are best.
    steps: int = 500
    # heads: chunks in an optimiser step, each a candidate for all others.
    batch_size: int = 256
    # heads: mismatched recordings that each chunk is scored against.
    pool_size: int = 1024
    # Folds of episodes; an episode is scored by heads that were not trained on its fold.
    num_folds: int = 5
    # heads: width of the scorers' hidden layers.
    hidden_dim: int = 256
    # heads: temperature of the identification posteriors.
    temperature: float = 0.1
    # heads: learning rate of the scorers.
    lr: float = 1e-3
    # heads: weight decay of the scorers.
    weight_decay: float = 1e-2
    # Share of each task's episodes that is kept at least: over episodes, q/p never exceeds four times its inverse.
    keep_share: float = 0.25
    # heads: chunks of the dataset that are scored at most, spread evenly over episodes.
    max_chunks: int = 20_000
    # Seed of the scorers' initial values, their batches and the candidate pools.
    seed: int = 0

    def __post_init__(self) -> None:
        if self.scorer not in SCREENERS:
            raise ConfigError(f"screening.scorer is {self.scorer!r}; {did_you_mean(self.scorer, SCREENERS)}")
        if not 0 <= self.max_false_exclusions < 1:
            raise ConfigError(f"screening.max_false_exclusions is {self.max_false_exclusions}; it must be in [0, 1)")
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
