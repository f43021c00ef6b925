"""Whether a setting is fit for a verdict on methods, by its own controls.

Two things are asked. Do the true labels help where they are weights within a method's bounds? If not, no weights could
have won there, and a method that does not win says nothing about the method. And is the baseline trained out? If more
training lifts it, methods are compared on how fast they learn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptr_robot.eval.success_statistics import Interval
from ptr_robot.study.analysis.seed_statistics import Outcomes, success_difference

TRAINED_OUT = 0.03  # what twice the training may lift the baseline by

Row = tuple[str, Outcomes]  # a method's title and its outcomes


@dataclass(frozen=True)
class ControlFinding:
    """A control against the baseline."""

    title: str
    difference: Interval


@dataclass(frozen=True)
class Fitness:
    """What the controls of a setting say; None where a control has not run, or has one seed alone."""

    positive_controls: tuple[ControlFinding, ...]
    is_fit: bool | None
    more_training: ControlFinding | None
    is_trained_out: bool | None

    @property
    def verdict(self) -> str:
        """One line for tables."""
        return f"{self._about_labels()}; {self._about_training()}."

    @property
    def warning(self) -> str | None:
        """What figures must say; None where nothing stands against a verdict, or nothing is known."""
        if self.is_fit is False:
            return "not fit: even true labels do not help"
        return "not trained out" if self.is_trained_out is False else None

    def _about_labels(self) -> str:
        said = ", ".join(f"{control.title} {_signed(control.difference)}" for control in self.positive_controls)
        if self.is_fit is None:
            reason = f"{said}, of one seed" if said else "no row weighs by the true labels"
            return f"fitness unknown: {reason}"
        return f"fit: {said}" if self.is_fit else f"not fit: even true labels do not help ({said})"

    def _about_training(self) -> str:
        if self.more_training is None:
            return "whether the baseline is trained out is unknown: no row trains it longer"
        said = f"{self.more_training.title} {_signed(self.more_training.difference)}"
        if self.is_trained_out is None:
            return f"whether the baseline is trained out is unknown: {said}, of one seed"
        return f"{'trained out' if self.is_trained_out else 'not trained out'}: {said}"


def find_fitness(baseline: Outcomes, positive_controls: list[Row], more_training: Row | None) -> Fitness:
    """Fit: some way of applying the true labels has its interval above zero."""
    controls = tuple(c for title, outcomes in positive_controls if (c := _control(title, outcomes, baseline)))
    known = [control for control in controls if _has_interval(control)]
    further = _control(*more_training, baseline) if more_training else None
    return Fitness(
        positive_controls=controls,
        is_fit=any(control.difference.low > 0 for control in known) if known else None,
        more_training=further,
        is_trained_out=further.difference.estimate < TRAINED_OUT if further and _has_interval(further) else None,
    )


def _control(title: str, outcomes: Outcomes, baseline: Outcomes) -> ControlFinding | None:
    difference = success_difference(outcomes, baseline)
    return None if difference is None else ControlFinding(title, difference)


def _has_interval(control: ControlFinding) -> bool:
    """One seed has none."""
    return not math.isnan(control.difference.low)


def _signed(interval: Interval) -> str:
    estimate = f"{interval.estimate:+.2f}"
    return estimate if math.isnan(interval.low) else f"{estimate} [{interval.low:+.2f}, {interval.high:+.2f}]"
