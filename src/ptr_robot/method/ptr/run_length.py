"""Runs that are shorter than the paper's keep its proportions: what it counts in steps is a share of its 60,000."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from ptr_robot.errors import ConfigError
from ptr_robot.method.ptr.config import PTRConfig

PAPER_STEPS = 60_000

Config = TypeVar("Config", bound=PTRConfig)


def in_proportion(config: Config, steps: int) -> Config:
    """The settings for a run of ``steps``, given those for a run as long as the paper's; a longer one has the same.

    What is kept: the weights' warm-up as a share of the run (3000 of 60,000 steps; 12,000 for ``robust``), the number
    of the controller's moves (600, but for rounding to whole steps) and of the EMA encoder's time constants (60).
    """
    if steps < 1:
        raise ConfigError(f"a run of {steps} steps is no run; give it at least 1")
    targets, controller = config.targets, config.controller
    if config.scorer.enabled:
        forgotten = min(1.0, (1 - targets.ema_decay) * max(1.0, PAPER_STEPS / steps))  # in a step
        targets = dataclasses.replace(targets, ema_decay=round(1 - forgotten, 9))
        controller = dataclasses.replace(controller, interval_steps=max(1, scaled(controller.interval_steps, steps)))
    weights = dataclasses.replace(config.weights, warmup_steps=scaled(config.weights.warmup_steps, steps))
    return dataclasses.replace(config, targets=targets, weights=weights, controller=controller)


def scaled(paper_steps: int, steps: int) -> int:
    """The paper's number of steps, in proportion for a shorter run."""
    return min(paper_steps, round(paper_steps * steps / PAPER_STEPS))
