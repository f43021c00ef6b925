"""Which operator records which episode with which seeds: fixed before anything is simulated."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.sim.operators import OperatorConfig
from ptr_robot.sim.performance import DemonstrationSeeds


@dataclass(frozen=True)
class PlannedEpisode:
    """One episode to record."""

    episode_index: int
    task: str
    operator: str
    seeds: DemonstrationSeeds


def resolve_mixture(
    shares: Mapping[str, float], operators: Mapping[str, OperatorConfig], fault_fraction: float | None
) -> dict[str, float]:
    """The share of every operator, adding up to 1; ``fault_fraction`` sets what the faulty ones have together."""
    for name, share in shares.items():
        if name not in operators:
            raise ConfigError(f"there is no operator {name!r}; {did_you_mean(name, operators)}")
        if not 0 < share < math.inf:
            raise ConfigError(f"the operator {name!r} has the share {share}; shares must be above 0")
    if not shares:
        raise ConfigError("no operator was named; name at least one, for example --operators='{steady: 1}'")
    if fault_fraction is None:
        return _normalised(shares, 1.0)
    if not 0.0 <= fault_fraction <= 1.0:
        raise ConfigError(f"fault_fraction={fault_fraction} is out of range; choose 0 to 1")
    faulty = {name: share for name, share in shares.items() if operators[name].is_faulty}
    clean = {name: share for name, share in shares.items() if not operators[name].is_faulty}
    for group, part, word in ((faulty, fault_fraction, "faulty"), (clean, 1.0 - fault_fraction, "clean")):
        if part > 0 and not group:
            raise ConfigError(
                f"fault_fraction={fault_fraction} needs a {word} operator, and none is among: {', '.join(shares)}"
            )
    return {**_normalised(clean, 1.0 - fault_fraction), **_normalised(faulty, fault_fraction)}


def plan_episodes(
    tasks: Sequence[str], episodes_per_task: int, mixture: Mapping[str, float], seed: int
) -> tuple[PlannedEpisode, ...]:
    """``episodes_per_task`` episodes of each task, whose operators have their shares to the nearest episode."""
    if episodes_per_task < 1:
        raise ConfigError(f"episodes={episodes_per_task} must be at least 1")
    if seed < 0:
        raise ConfigError(f"seed={seed} must be 0 or more")
    planned: list[PlannedEpisode] = []
    for task in tasks:
        # A task's episodes depend on its name, not on its place in the list or on its neighbours.
        root = np.random.SeedSequence([seed, zlib.crc32(task.encode())])
        names = _apportion(mixture, episodes_per_task)
        np.random.default_rng(root.spawn(1)[0]).shuffle(names)
        numbers = root.generate_state(2 * episodes_per_task).reshape(-1, 2).tolist()
        for name, (layout, operator) in zip(names, numbers, strict=True):
            planned.append(PlannedEpisode(len(planned), task, name, DemonstrationSeeds(layout, operator)))
    return tuple(planned)


def _apportion(mixture: Mapping[str, float], total: int) -> list[str]:
    """Whole numbers of episodes by largest remainder."""
    counts = {name: int(share * total) for name, share in mixture.items()}
    by_remainder = sorted(mixture, key=lambda name: counts[name] - mixture[name] * total)
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return [name for name, count in counts.items() for _ in range(count)]


def _normalised(shares: Mapping[str, float], total: float) -> dict[str, float]:
    everything = sum(shares.values())
    return {name: total * share / everything for name, share in shares.items() if total > 0}
