"""From a judge of episodes, a rule or the ground truth, to the episodes that stay or to a weight for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ptr_robot.data.ground_truth import EpisodeTruth
from ptr_robot.study.spec.method_row import TRUTH, EpisodeFilter, EpisodeWeighting


@dataclass(frozen=True)
class Suspicion:
    """What a rule thinks of one episode; higher is worse."""

    episode_index: int
    task: str
    value: float


def kept_episodes(
    choice: EpisodeFilter, suspicions: Sequence[Suspicion], truths: Mapping[int, EpisodeTruth]
) -> list[int]:
    """The clean episodes, or of each task the least suspected ones; ties go to the earlier episode.

    An episode that the rule cannot judge (NaN: shorter than a chunk) stays only where others do not suffice.
    """
    if choice.by == TRUTH:
        return sorted(number for number, truth in truths.items() if not truth.is_faulty)
    kept: list[int] = []
    for group in _by_task(suspicions):
        ranked = sorted(group, key=lambda one: (math.isnan(one.value), one.value, one.episode_index))
        kept += [suspicion.episode_index for suspicion in ranked[: math.ceil(choice.keep * len(ranked))]]
    return sorted(kept)


def episode_weights(
    choice: EpisodeWeighting, suspicions: Sequence[Suspicion], truths: Mapping[int, EpisodeTruth]
) -> dict[int, float]:
    """``clip(exp(z / beta))`` with z the negated z-score of the suspicion within the task; by the truth, the bounds.

    An episode that the rule cannot judge (NaN: shorter than a chunk) weighs one.
    """
    if choice.by == TRUTH:
        return {number: choice.w_min if truth.is_faulty else choice.w_max for number, truth in truths.items()}
    weights: dict[int, float] = {}
    for group in _by_task(suspicions):
        values = np.array([suspicion.value for suspicion in group])
        known = values[~np.isnan(values)]
        deviation = float(known.std()) if len(known) else 0.0
        z_scores = (known.mean() - values) / deviation if deviation > 0 else np.zeros(len(values))
        z_scores = np.nan_to_num(z_scores, nan=0.0)
        clipped = np.clip(np.exp(z_scores / choice.beta), choice.w_min, choice.w_max)
        weights |= {s.episode_index: float(weight) for s, weight in zip(group, clipped, strict=True)}
    return weights


def _by_task(suspicions: Sequence[Suspicion]) -> list[list[Suspicion]]:
    tasks = sorted({suspicion.task for suspicion in suspicions})
    return [[suspicion for suspicion in suspicions if suspicion.task == task] for task in tasks]
