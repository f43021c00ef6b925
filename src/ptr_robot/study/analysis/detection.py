"""How well scores and weights tell faulty episodes from good ones, fault by fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np

from ptr_robot.errors import require
from ptr_robot.study.cells.scored_episode import ScoredEpisode

ANY = "any"  # every fault together

Value = Callable[[ScoredEpisode], float | None]


def fault_kinds(episodes: Sequence[ScoredEpisode]) -> list[str]:
    """Every kind that occurs, after the one that stands for all of them."""
    kinds = sorted({kind for episode in episodes for kind in episode.faults or ()})
    return [ANY, *kinds] if kinds else []


def has_fault(episode: ScoredEpisode, kind: str) -> bool:
    """Whether the episode is marked with it, or with any."""
    return episode.is_faulty if kind == ANY else episode.has(kind)


def count_of(episodes: Sequence[ScoredEpisode], kind: str) -> int:
    """Episodes with that fault; one with several counts for each."""
    return sum(has_fault(episode, kind) for episode in episodes)


def auroc_by_fault(episodes: Sequence[ScoredEpisode], value: Value) -> dict[str, float | None]:
    """For each fault the chance that a good episode has the higher value, a tie counting half.

    Only episodes that the dataset gives to the same task of the same source are compared: values differ between
    tasks for reasons of the task. Tasks count by their number of pairs; None where there is nothing to compare.
    """
    known = [episode for episode in episodes if value(episode) is not None]
    return {kind: _auroc(known, value, kind) for kind in fault_kinds(episodes)}


def weight_auroc(episodes: Sequence[ScoredEpisode]) -> float:
    """Whether good episodes weigh more than marked ones: chance is 0.5, perfect is 1; NaN with nothing to compare."""
    area = auroc_by_fault(episodes, attrgetter("weight")).get(ANY)
    return math.nan if area is None else area


def mean_weights(episodes: Sequence[ScoredEpisode]) -> dict[str, float | None]:
    """What good and faulty episodes weigh on average."""
    groups = {"good": [e for e in episodes if e.is_good], "faulty": [e for e in episodes if e.is_faulty]}
    means: dict[str, float | None] = {}
    for name, members in groups.items():
        weights = [episode.weight for episode in members if episode.weight is not None]
        means[name] = float(np.mean(weights)) if weights else None
    return means


def auroc(lower: Sequence[float], higher: Sequence[float]) -> float:
    """The chance that one of ``higher`` exceeds one of ``lower``, a tie counting half; NaN where either is empty."""
    if not lower or not higher:
        return float("nan")
    stats = require("scipy.stats", "sim")
    statistic = stats.mannwhitneyu(higher, lower).statistic
    return float(statistic) / (len(lower) * len(higher))


def _auroc(episodes: Sequence[ScoredEpisode], value: Value, kind: str) -> float | None:
    areas, pairs = [], []
    for group in sorted({(episode.source, episode.task) for episode in episodes}):
        members = [episode for episode in episodes if (episode.source, episode.task) == group]
        faulty = [_number(value(e)) for e in members if has_fault(e, kind)]
        good = [_number(value(e)) for e in members if e.is_good]
        area = auroc(faulty, good)
        if not math.isnan(area):
            areas.append(area)
            pairs.append(len(faulty) * len(good))
    return float(np.average(areas, weights=pairs)) if areas else None


def _number(value: float | None) -> float:
    assert value is not None
    return value
