"""What a comparison found: one row a method, and how much of the possible gain was reached."""

from __future__ import annotations

import functools
import math
from dataclasses import asdict, dataclass
from typing import Any

from ptr_robot.eval.results import success_by_task, success_rate
from ptr_robot.eval.success_statistics import Interval, paired_bootstrap_interval
from ptr_robot.study.cells.record import EpisodeOutcome


@dataclass(frozen=True)
class MethodOutcome:
    """One method: its evaluation, and how its weights separate marked from good episodes (NaN: it has none)."""

    name: str
    title: str
    episodes: tuple[EpisodeOutcome, ...]
    auroc: float = math.nan

    @property
    def success(self) -> Interval:
        """Over all tasks."""
        return success_rate(self.episodes)

    @property
    def success_by_task(self) -> dict[str, Interval]:
        """Of each task."""
        return success_by_task(self.episodes)


@dataclass(frozen=True)
class Comparison:
    """All methods, with the two that the others are measured against."""

    outcomes: tuple[MethodOutcome, ...]
    baseline: str
    upper_bound: str

    def outcome(self, name: str) -> MethodOutcome:
        """The method of that name."""
        return next(outcome for outcome in self.outcomes if outcome.name == name)

    def difference(self, name: str) -> Interval:
        """Success minus the baseline's on the same layouts, with a paired bootstrap interval."""
        return _paired_difference(_outcomes(self.outcome(name)), _outcomes(self.outcome(self.baseline)))

    @property
    def gap(self) -> Interval:
        """What there is to gain: the upper bound minus the baseline."""
        return self.difference(self.upper_bound)

    def gap_share(self, name: str) -> float | None:
        """The share of the gap that a method recovers; None where the upper bound is not above the baseline."""
        gap = self.gap.estimate
        if gap <= 0:
            return None
        return self.difference(name).estimate / gap

    def describe_share(self, name: str) -> str:
        """The share in words, with a question mark where the gap itself may be chance."""
        if name in (self.baseline, self.upper_bound):
            return "-"
        share = self.gap_share(name)
        if share is None:
            return "undefined"
        return f"{share:+.0%}" + ("?" if self.gap.low <= 0 else "")

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "baseline": self.baseline,
            "upper_bound": self.upper_bound,
            "gap": asdict(self.gap),
            "methods": {
                outcome.name: {
                    "title": outcome.title,
                    "success": asdict(outcome.success),
                    "success_by_task": {t: asdict(s) for t, s in outcome.success_by_task.items()},
                    "difference_to_baseline": asdict(self.difference(outcome.name)),
                    "gap_share": self.gap_share(outcome.name),
                    "weight_auroc": None if math.isnan(outcome.auroc) else outcome.auroc,
                    "num_episodes": len(outcome.episodes),
                }
                for outcome in self.outcomes
            },
        }


def verdict(comparison: Comparison) -> list[str]:
    """What may be concluded, and what may not, in plain sentences."""
    gap, upper = comparison.gap, comparison.outcome(comparison.upper_bound).title
    sentences = []
    if gap.estimate <= 0:
        sentences.append(
            f"{upper} is not better than plain fine-tuning here ({_signed(gap)}): there is no gap to recover, and no "
            "share of it is given."
        )
    elif gap.low <= 0:
        sentences.append(f"The gap of {_signed(gap)} may be chance: shares of it carry a question mark.")
    sentences += [
        _about(outcome, comparison.difference(outcome.name))
        for outcome in comparison.outcomes
        if outcome.name not in (comparison.baseline, comparison.upper_bound)
    ]
    sentences.append("One training seed: differences between runs of other seeds are not in these intervals.")
    return sentences


def _about(outcome: MethodOutcome, difference: Interval) -> str:
    if difference.low > 0:
        effect = "helps"
    elif difference.high < 0:
        effect = "hurts"
    else:
        effect = "makes no difference that this many episodes could show"
    return f"{outcome.title} {effect}: {_signed(difference)} success against plain fine-tuning."


def _signed(interval: Interval) -> str:
    return f"{interval.estimate:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


def _outcomes(outcome: MethodOutcome) -> tuple[float, ...]:
    return tuple(float(episode.is_success) for episode in outcome.episodes)


@functools.lru_cache(maxsize=64)
def _paired_difference(first: tuple[float, ...], second: tuple[float, ...]) -> Interval:
    """Thousands of resamples, asked for by the table, the verdict and the file alike."""
    return paired_bootstrap_interval(first, second)
