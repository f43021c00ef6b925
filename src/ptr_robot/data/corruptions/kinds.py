"""The paper's corruptions as settings: what is done to episodes, how strongly, and to which share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ptr_robot.errors import ConfigError, did_you_mean

NOISE_UNITS = ("std", "raw")
KINDS = ("ani", "tt", "ln", "combined")


@dataclass(frozen=True)
class ActionNoise:
    """ANI: Gaussian noise on the recorded actions; what the robot did, and its images, stay as they were.

    The paper states σ = 0.1 and no unit. With ``std`` it is a share of each dimension's standard deviation
    over the dataset: radians, metres and gripper commands are disturbed alike, σ means the same on every
    robot, and a dimension that never moves stays still. With ``raw`` it has the units of the actions.
    """

    fraction: float = 0.30
    sigma: float = 0.1
    unit: str = "std"

    def __post_init__(self) -> None:
        _check_fraction("ani", self.fraction)
        if not 0 < self.sigma < float("inf"):
            raise ConfigError(f"sigma is {self.sigma}; it must be a positive number")
        if self.unit not in NOISE_UNITS:
            raise ConfigError(f"noise_unit is {self.unit!r}; {did_you_mean(self.unit, NOISE_UNITS)}")


@dataclass(frozen=True)
class Truncation:
    """TT: the end of an episode is cut off; between ``keep_from`` and ``keep_to`` of its frames stay."""

    fraction: float = 0.25
    keep_from: float = 0.4
    keep_to: float = 0.7

    def __post_init__(self) -> None:
        _check_fraction("tt", self.fraction)
        if not 0 < self.keep_from <= self.keep_to < 1:
            raise ConfigError(
                f"keep_from is {self.keep_from}, keep_to {self.keep_to}; needed: 0 < keep_from <= keep_to < 1"
            )


@dataclass(frozen=True)
class LabelNoise:
    """LN: an episode gets another instruction of the same dataset, never one of its own."""

    fraction: float = 0.20

    def __post_init__(self) -> None:
        _check_fraction("ln", self.fraction)


Corruption: TypeAlias = ActionNoise | Truncation | LabelNoise


def paper_corruptions(
    kind: str,
    *,
    fraction: float | None = None,
    sigma: float = 0.1,
    noise_unit: str = "std",
    keep_from: float = 0.4,
    keep_to: float = 0.7,
) -> tuple[Corruption, ...]:
    """What a name of the paper stands for; ``fraction`` replaces the paper's share of each corruption."""
    if kind not in KINDS:
        raise ConfigError(f"there is no corruption {kind!r}; {did_you_mean(kind, KINDS)}")
    share = {} if fraction is None else {"fraction": fraction}
    by_kind: dict[str, Corruption] = {
        "ani": ActionNoise(sigma=sigma, unit=noise_unit, **share),
        "tt": Truncation(keep_from=keep_from, keep_to=keep_to, **share),
        "ln": LabelNoise(**share),
    }
    return tuple(by_kind.values()) if kind == "combined" else (by_kind[kind],)


def _check_fraction(kind: str, fraction: float) -> None:
    if not 0 < fraction <= 1:
        raise ConfigError(f"the fraction of episodes for {kind} is {fraction}; it must lie above 0 and not above 1")
