"""Operators of stated skill, of any arm: how each moves when nothing goes wrong, and what goes wrong when it does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptr_robot.envs.fault_plans import PLANNERS
from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.text_files import read_yaml


def _check_range(name: str, limits: tuple[float, float], lowest: float, highest: float) -> None:
    if not isinstance(limits, tuple) or len(limits) != 2 or not lowest <= limits[0] <= limits[1] <= highest:
        raise ConfigError(f"{name}={limits} must be two increasing numbers within {lowest} and {highest}")


@dataclass(frozen=True)
class OperatorConfig:
    """An operator's habits; a pair is a range from which every episode draws its own value."""

    skill: str = ""  # one line for tables and documents
    speed: tuple[float, float] = (0.4, 1.0)  # top speed away from the object, as a share of the robot's
    bow: tuple[float, float] = (0.0, 0.1)  # metres the approach first aims beside; the path bows by a third of it
    noise: tuple[float, float] = (0.01, 0.04)  # smooth noise on the movements, in units of the action
    rests: tuple[int, int] = (0, 2)  # short rests of three to six frames
    faults: tuple[str, ...] = ()  # the kinds of fault; none for a clean operator
    faults_per_episode: tuple[int, int] = (1, 1)
    severity: float = 1.0  # a factor on the size of every fault
    give_up_share: float = 0.0  # how often a failed attempt is the last one
    tremor: tuple[float, float] = (0.0, 0.06)  # white noise on the movements: every hand trembles a little

    def __post_init__(self) -> None:
        for kind in self.faults:
            if kind not in PLANNERS:
                raise ConfigError(f"there is no fault {kind!r}; {did_you_mean(kind, PLANNERS)}")
        _check_range("speed", self.speed, 0.1, 1.0)
        _check_range("bow", self.bow, 0.0, 0.3)
        _check_range("noise", self.noise, 0.0, 1.0)
        _check_range("tremor", self.tremor, 0.0, 1.0)
        _check_range("rests", self.rests, 0, 20)
        _check_range("faults_per_episode", self.faults_per_episode, 1, len(PLANNERS))
        if self.severity <= 0:
            raise ConfigError(
                f"severity={self.severity} must be above 0; for an operator without faults leave faults empty"
            )

    @property
    def is_faulty(self) -> bool:
        """Whether this operator's episodes have faults."""
        return bool(self.faults)


OPERATORS: dict[str, OperatorConfig] = {
    "brisk": OperatorConfig("clean: quick and direct", (0.85, 1.0), (0.0, 0.03), (0.01, 0.03), (0, 0)),
    "steady": OperatorConfig("clean: medium speed", (0.6, 0.8), (0.0, 0.05), (0.01, 0.03), (0, 1)),
    "careful": OperatorConfig("clean: slow, with short rests", (0.4, 0.6), (0.0, 0.05), (0.01, 0.02), (1, 3)),
    "sweeping": OperatorConfig("clean: approaches in an arc", (0.6, 1.0), (0.08, 0.12), (0.02, 0.05), (0, 1)),
    "jittery": OperatorConfig("faulty: trembles", faults=("jitter",)),
    "hesitant": OperatorConfig("faulty: stops and starts", faults=("hesitation",)),
    "wandering": OperatorConfig("faulty: goes to a wrong place and comes back", faults=("detour",)),
    "fumbling": OperatorConfig("faulty: misses, then tries again", faults=("failed_attempt",)),
    "quitting": OperatorConfig("faulty: misses, then gives up", faults=("failed_attempt",), give_up_share=1.0),
    "lagging": OperatorConfig("faulty: acts late", faults=("late_actions",)),
    "poor": OperatorConfig("faulty: any one or two of the faults", faults=tuple(PLANNERS), faults_per_episode=(1, 2)),
}


def read_operators(path: Path, known: Mapping[str, OperatorConfig] = OPERATORS) -> dict[str, OperatorConfig]:
    """The known operators and those of a YAML file that maps names to the fields of ``OperatorConfig``."""
    entries = read_yaml(path)
    if not isinstance(entries, Mapping):
        raise ConfigError(f"{path}: must map operator names to their settings")
    return {**known, **{str(name): _read_operator(path, str(name), entry) for name, entry in entries.items()}}


def _read_operator(path: Path, name: str, entry: Any) -> OperatorConfig:
    fields = {field.name for field in dataclasses.fields(OperatorConfig)}
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{path}, operator {name!r}: must map settings to values; known: {', '.join(sorted(fields))}")
    for key in entry:
        if key not in fields:
            raise ConfigError(
                f"{path}, operator {name!r}: there is no setting {key!r}; {did_you_mean(str(key), fields)}"
            )
    values: dict[str, Any] = {
        str(key): tuple(value) if isinstance(value, list) else value for key, value in entry.items()
    }
    try:
        return OperatorConfig(**values)
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{path}, operator {name!r}: {error}") from error
