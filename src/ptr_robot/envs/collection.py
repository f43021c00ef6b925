"""Which operator records which episode with which seeds: fixed before anything is simulated."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ptr_robot.envs.operators import OPERATORS, OperatorConfig
from ptr_robot.envs.performance import DemonstrationSeeds
from ptr_robot.errors import ConfigError, did_you_mean

Key = TypeVar("Key")
MOST_EPISODES = 1_000_000  # of a task: every one is planned before the first is recorded
# Raised when the same settings come to other episodes; what was recorded before is then recorded anew.
COLLECTION_VERSION = 2
_ROUNDING = 1e-9  # shares are sums of fractions: 0.6 of 40 must not come to 23.999


@dataclass(frozen=True)
class PlannedDemonstration:
    """One episode to record."""

    episode_index: int
    task: str
    operator: str
    seeds: DemonstrationSeeds


def clean_operators(operators: Mapping[str, OperatorConfig]) -> dict[str, float]:
    """Shares of those without a fault, all alike."""
    return {name: 1.0 for name, operator in operators.items() if not operator.is_faulty}


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
    tasks: Sequence[str],
    episodes_per_task: int,
    mixture: Mapping[str, float],
    seed: int,
    operators: Mapping[str, OperatorConfig] = OPERATORS,
) -> tuple[PlannedDemonstration, ...]:
    """``episodes_per_task`` episodes of each task, whose operators have their shares to the nearest episode.

    The share of all faulty ones comes first, since that is what is asked for; each operator's is one within it.
    """
    if not 1 <= episodes_per_task <= MOST_EPISODES:
        raise ConfigError(f"episodes={episodes_per_task} must be 1 to {MOST_EPISODES}")
    if seed < 0:
        raise ConfigError(f"seed={seed} must be 0 or more")
    planned: list[PlannedDemonstration] = []
    for task in tasks:
        # A task's episodes depend on its name, not on its place in the list or on its neighbours.
        root = np.random.SeedSequence([seed, zlib.crc32(task.encode())])
        names = _apportion_groups(mixture, episodes_per_task, operators)
        np.random.default_rng(root.spawn(1)[0]).shuffle(names)
        numbers = root.generate_state(2 * episodes_per_task).reshape(-1, 2).tolist()
        for name, (layout, operator) in zip(names, numbers, strict=True):
            planned.append(PlannedDemonstration(len(planned), task, name, DemonstrationSeeds(layout, operator)))
    return tuple(planned)


def _apportion_groups(mixture: Mapping[str, float], total: int, operators: Mapping[str, OperatorConfig]) -> list[str]:
    """The operator of each episode: clean and faulty ones get their numbers first."""
    groups: dict[bool, dict[str, float]] = {}
    for name, share in mixture.items():
        groups.setdefault(operators[name].is_faulty, {})[name] = share
    counts = _apportion({group: sum(shares.values()) for group, shares in groups.items()}, total)
    numbers = {
        name: number
        for group, shares in groups.items()
        for name, number in _apportion(_normalised(shares, 1.0), counts[group]).items()
    }
    return [name for name in mixture for _ in range(numbers[name])]


def _apportion(shares: Mapping[Key, float], total: int) -> dict[Key, int]:
    """Whole numbers by largest remainder."""
    counts = {name: int(share * total + _ROUNDING) for name, share in shares.items()}
    by_remainder = sorted(shares, key=lambda name: counts[name] - shares[name] * total)
    for name in by_remainder[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def _normalised(shares: Mapping[str, float], total: float) -> dict[str, float]:
    everything = sum(shares.values())
    return {name: total * share / everything for name, share in shares.items() if total > 0}
