"""How well faults of known kinds would be found in a dataset, measured on copies of its own episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.combination import DOUBT
from ptr_robot.method.scoring.injections import INJECTORS, WRONG_INSTRUCTION
from ptr_robot.method.scoring.quality import CHANNEL_NAMES, Quality
from ptr_robot.method.scoring.recordings import Recording
from ptr_robot.method.scoring.verdicts import ranked_evidence, rare_episodes

Values = NDArray[np.float64]
Report = Callable[[str, float], None]

MOST_COPIES = 40  # of a kind
_NUM_RESAMPLES = 500


@dataclass(frozen=True)
class CheckResult:
    """Of one kind of fault."""

    kind: str
    title: str
    num_copies: int
    auroc: float  # the chance that a copy has more evidence against it than an episode of its task that is not dropped
    auroc_low: float  # 95% interval over episodes
    auroc_high: float
    recall: float  # share of the copies that are dropped
    strongest: str  # the channel that most often speaks against the copies
    auroc_without_pictures: float | None = None  # by states and actions alone, where there are pictures


def check(quality: Quality, seed: int, report: Report | None = None) -> list[CheckResult]:
    """Inject every kind into copies of episodes that nothing speaks against, and measure them as they are measured."""
    generator = np.random.default_rng([seed, 77])
    ranked = ranked_evidence(quality, rare_episodes(quality))
    undoubted = np.flatnonzero(ranked < DOUBT)
    kept = np.flatnonzero(ranked < quality.combination.threshold)
    results = []
    kinds = [*(injector.kind for injector in INJECTORS), WRONG_INSTRUCTION]
    for number, kind in enumerate(kinds):
        if report is not None:
            report("checking on injected faults", number / len(kinds))
        chosen = generator.permutation(undoubted)[:MOST_COPIES]
        copies, places, tasks = _copies(kind, quality, chosen, generator)
        if copies:
            scores = quality.measure(copies, places, tasks)
            wins = _wins(
                quality.combination.evidence(scores), quality.labels[places], ranked[kept], quality.labels[kept]
            )
            results.append(_result(kind, quality, scores, wins, generator))
    return results


def _copies(
    kind: str, quality: Quality, chosen: NDArray[np.int64], generator: np.random.Generator
) -> tuple[list[Recording], list[int], list[int]]:
    """Altered copies, whose episodes they are, and the instructions that they claim to follow."""
    recordings, given = quality.draws[0].recordings, quality.given
    copies, places, tasks = [], [], []
    for place in chosen.tolist():
        episode, task = recordings.episodes[place], int(given[place])
        copy: Recording | None = episode
        if kind == WRONG_INSTRUCTION:
            others = np.setdiff1d(np.unique(given), [quality.labels[place]])
            if not len(others):
                return [], [], []
            task = int(generator.choice(others))
        else:
            injector = next(one for one in INJECTORS if one.kind == kind)
            copy = injector.inject(episode, recordings, generator)
        if copy is not None:
            copies.append(copy)
            places.append(place)
            tasks.append(task)
    return copies, places, tasks


def _result(kind: str, quality: Quality, scores: Values, wins: Values, generator: np.random.Generator) -> CheckResult:
    resampled = [float(generator.choice(wins, size=len(wins)).mean()) for _ in range(_NUM_RESAMPLES)]
    low, high = np.quantile(resampled, [0.025, 0.975])
    strongest = np.bincount(
        quality.combination.contributions(scores).argmax(axis=1), minlength=len(CHANNEL_NAMES)
    ).argmax()
    titles = {injector.kind: injector.title for injector in INJECTORS} | {WRONG_INSTRUCTION: "wrong instruction"}
    return CheckResult(
        kind=kind,
        title=titles[kind],
        num_copies=len(wins),
        auroc=float(wins.mean()),
        auroc_low=float(low),
        auroc_high=float(high),
        recall=float((quality.combination.evidence(scores) >= quality.combination.threshold).mean()),
        strongest=CHANNEL_NAMES[int(strongest)],
    )


def _wins(
    copies: Values, copy_tasks: NDArray[np.int64], originals: Values, tasks: NDArray[np.int64]
) -> Values:  # (n,), (n,), (m,), (m,) -> (n,)
    """Of each copy, the share of unchanged episodes of its task that have less evidence against them; ties are half."""
    found = []
    for value, task in zip(copies, copy_tasks, strict=True):
        rivals = originals[tasks == task]
        rivals = rivals if len(rivals) else originals
        found.append(0.5 * float(np.mean(value > rivals)) + 0.5 * float(np.mean(value >= rivals)))
    return np.array(found)
