"""When in an episode an operator goes wrong, and how badly: drawn once, before the episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ptr_robot.envs.arm import Vector
from ptr_robot.envs.faults import Detour, ExecutedFault, FailedAttempt, Hesitation, Jitter, LateActions


@dataclass(frozen=True)
class PlannedFault:
    """A fault that begins at a frame, or as soon as the one before it is over."""

    first_frame: int
    fault: ExecutedFault


@dataclass(frozen=True)
class Severity:
    """How bad the faults are: a factor on their sizes, and how often a failed attempt is the last one."""

    factor: float = 1.0
    give_up_share: float = 0.0


def plan_faults(
    kinds: Sequence[str], num_frames: int, severity: Severity, generator: np.random.Generator
) -> list[PlannedFault]:
    """Place one fault (of hesitations: several) of each kind in an episode that takes ``num_frames`` without them."""
    planned = [fault for kind in kinds for fault in PLANNERS[kind](num_frames, severity, generator)]
    return sorted(planned, key=lambda fault: fault.first_frame)


def _plan_jitter(num_frames: int, severity: Severity, generator: np.random.Generator) -> list[PlannedFault]:
    duration = _share(num_frames, generator.uniform(0.45, 0.75))
    noise = severity.factor * generator.uniform(0.4, 0.7)
    return [
        PlannedFault(_share(num_frames, generator.uniform(0.05, 0.3)), Jitter(duration, noise, generator.spawn(1)[0]))
    ]


def _plan_hesitations(num_frames: int, severity: Severity, generator: np.random.Generator) -> list[PlannedFault]:
    starts = np.sort(generator.uniform(0.1, 0.8, size=generator.integers(2, 5)))
    return [
        PlannedFault(
            _share(num_frames, start),
            Hesitation(
                num_frames=max(2, round(severity.factor * generator.integers(8, 21))),
                retreat_speed=float(generator.choice([0.0, generator.uniform(0.05, 0.25)])),
            ),
        )
        for start in starts
    ]


def _plan_detour(num_frames: int, severity: Severity, generator: np.random.Generator) -> list[PlannedFault]:
    displacement = severity.factor * generator.uniform(0.10, 0.18) * _sideways(generator, rise=0.6)
    start = _share(num_frames, generator.uniform(0.15, 0.6))
    return [PlannedFault(start, Detour(displacement, speed=float(generator.uniform(0.6, 1.0))))]


def _plan_failed_attempt(num_frames: int, severity: Severity, generator: np.random.Generator) -> list[PlannedFault]:
    fault = FailedAttempt(
        num_frames=_share(num_frames, generator.uniform(0.45, 0.6)),
        miss=severity.factor * generator.uniform(0.055, 0.08) * _sideways(generator, rise=0.0),
        num_retreat_frames=int(generator.integers(8, 15)),
        is_retried=bool(generator.uniform() >= severity.give_up_share),
    )
    return [PlannedFault(_share(num_frames, generator.uniform(0.15, 0.3)), fault)]


def _plan_late_actions(num_frames: int, severity: Severity, generator: np.random.Generator) -> list[PlannedFault]:
    delay = max(1, round(severity.factor * generator.integers(6, 12)))
    duration = _share(num_frames, generator.uniform(0.7, 1.0))
    return [PlannedFault(_share(num_frames, generator.uniform(0.05, 0.2)), LateActions(duration, delay))]


def _share(num_frames: int, share: float) -> int:
    return max(1, round(num_frames * share))


def _sideways(generator: np.random.Generator, rise: float) -> Vector:
    """A unit vector in a random horizontal direction, tilted upwards by up to ``rise``."""
    angle = generator.uniform(0.0, 2.0 * np.pi)
    vector = np.array([np.cos(angle), np.sin(angle), generator.uniform(0.0, rise) if rise else 0.0])
    unit: Vector = vector / np.linalg.norm(vector)
    return unit


Planner = Callable[[int, Severity, np.random.Generator], list[PlannedFault]]

PLANNERS: dict[str, Planner] = {
    Jitter.kind: _plan_jitter,
    Hesitation.kind: _plan_hesitations,
    Detour.kind: _plan_detour,
    FailedAttempt.kind: _plan_failed_attempt,
    LateActions.kind: _plan_late_actions,
}
