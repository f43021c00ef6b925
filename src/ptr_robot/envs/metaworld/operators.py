"""Operators of stated skill: how each moves when nothing goes wrong, and what goes wrong when it does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.metaworld.environment import Action, EnvironmentState, make_expert
from ptr_robot.envs.metaworld.fault_plans import PLANNERS
from ptr_robot.errors import ConfigError, did_you_mean

_BOW_FRAMES = 12.0  # after so many frames a third of the bow is left
_CONTACT_METRES = (
    0.10  # nearer to the object than this, slowness would lose the grip: force comes from the hand's speed
)
_CONTACT_SPEED = 0.9
_PAUSE_FRAMES = 6
_PAUSE_GAP_FRAMES = 3
_NOISE_MEMORY = 0.8  # a hand's noise is smooth: the share of the last frame's that stays


def _check_range(name: str, limits: tuple[float, float], lowest: float, highest: float) -> None:
    if len(limits) != 2 or not lowest <= limits[0] <= limits[1] <= highest:
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


# Shares of those without a fault, all alike.
CLEAN_OPERATORS = {name: 1.0 for name, operator in OPERATORS.items() if not operator.is_faulty}


class Operator:
    """One operator in one episode, without its faults: the expert's way, done in this operator's manner."""

    def __init__(self, config: OperatorConfig, task: str, seed: int, speed: float | None = None) -> None:
        style, self._hand = np.random.default_rng([seed, 0]).spawn(2)
        drawn_speed = style.uniform(*config.speed)
        self.speed = float(drawn_speed if speed is None else speed)
        self._bow = style.uniform(*config.bow) * _tilted_direction(style)
        self._noise_scale = style.uniform(*config.noise)
        self._rest_chances = style.uniform(0.1, 0.9, size=style.integers(config.rests[0], config.rests[1] + 1))
        self.settle_frames = int(style.integers(4, 11))
        self._tremor_scale = style.uniform(*config.tremor)
        self._expert = make_expert(task)
        self._noise = np.zeros(3)
        self._num_intentions = 0
        self._rest_frames: frozenset[int] = frozenset()
        self._style = style

    def expect(self, num_frames: int, num_pause_frames: int = 0) -> None:
        """Place the rests in an episode of about ``num_frames``, and pauses that make it so many frames longer."""
        starts = np.round(self._rest_chances * num_frames).astype(int)
        rests = {int(frame) for start in starts for frame in range(start, start + int(self._style.integers(3, 7)))}
        self._rest_frames = frozenset(rests | _spread_pauses(num_frames, num_pause_frames, self._style))

    def intend(self, environment_state: EnvironmentState, last_action: Action) -> npt.NDArray[np.float64]:  # (4,)
        """The action this operator means to execute now."""
        frame = self._num_intentions
        self._num_intentions += 1
        fresh = self._hand.normal(0.0, self._noise_scale, size=3)
        self._noise = _NOISE_MEMORY * self._noise + np.sqrt(1.0 - _NOISE_MEMORY**2) * fresh
        tremor = self._hand.normal(0.0, self._tremor_scale, size=3)
        if frame in self._rest_frames:
            return np.append(tremor, last_action[3])
        shifted = environment_state.copy()
        shifted[:3] -= self._bow * np.exp(-frame / _BOW_FRAMES)
        action: npt.NDArray[np.float64] = np.clip(self._expert.get_action(shifted), -1.0, 1.0).astype(np.float64)
        is_near = np.linalg.norm(environment_state[:3] - environment_state[4:7]) < _CONTACT_METRES
        top_speed = max(self.speed, _CONTACT_SPEED) if is_near else self.speed
        action[:3] *= min(1.0, top_speed / max(float(np.abs(action[:3]).max()), 1e-9))
        action[:3] += self._noise + tremor
        return action


def _spread_pauses(num_frames: int, num_pause_frames: int, generator: np.random.Generator) -> set[int]:
    """The frames of short pauses all over an episode that would take ``num_frames`` without them."""
    total = num_frames + num_pause_frames
    num_pauses = min(-(-num_pause_frames // _PAUSE_FRAMES), total // (_PAUSE_FRAMES + _PAUSE_GAP_FRAMES))
    if num_pauses < 1:
        return set()
    space = total / num_pauses  # each pause has a space of its own
    lengths = np.full(num_pauses, num_pause_frames // num_pauses)
    lengths[: num_pause_frames % num_pauses] += 1
    offsets = generator.uniform(0.0, np.maximum(space - lengths - _PAUSE_GAP_FRAMES, 0.0))
    starts = np.floor(np.arange(num_pauses) * space + offsets).astype(int)
    return {int(start + frame) for start, length in zip(starts, lengths, strict=True) for frame in range(length)}


def read_operators(path: Path) -> dict[str, OperatorConfig]:
    """The built-in operators and those of a YAML file that maps names to the fields of ``OperatorConfig``."""
    import yaml

    try:
        entries = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{path}{place}: not a readable YAML file ({reason})") from error
    if not isinstance(entries, Mapping):
        raise ConfigError(f"{path}: must map operator names to their settings")
    return {**OPERATORS, **{str(name): _read_operator(path, str(name), entry) for name, entry in entries.items()}}


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


def _tilted_direction(generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """A random unit vector that does not point down: the table is there."""
    vector = generator.normal(size=3)
    vector[2] = abs(vector[2])
    unit: npt.NDArray[np.float64] = vector / np.linalg.norm(vector)
    return unit
