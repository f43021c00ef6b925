"""From evidence to what is done: keep, flag or drop, a weight, and the reason in words."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptr_robot.method.scoring.combination import DOUBT
from ptr_robot.method.scoring.quality import CHANNEL_NAMES, CHANNELS, Quality
from ptr_robot.method.scoring.rarity import benefit_of_doubt, differing_sessions, start_novelty

Values = NDArray[np.float64]

KEEP, FLAG, DROP = "keep", "flag", "drop"
LEAST_WEIGHT = 0.25  # of what is kept: the paper's lower bound
KEEP_SHARE = 0.25  # of every task that is kept in any case
_ALSO = 1.0  # nats from which a second reason is named
_MOST_EXCUSED = 6.0  # nats of any one channel that an unusual situation explains: the rest is a fault
_BEYOND_CHANCE = 12.0  # nats: the odds of one in 160,000 that channels which compare would have by chance
_FEW = 4  # suspicious episodes that any dataset may have by chance


@dataclass(frozen=True)
class Verdict:
    """What is done with one episode."""

    verdict: str  # keep, flag or drop
    score: float  # 0 to 1: the share of good episodes that have as much evidence against them by chance
    score_low: float  # the same with as little and as much evidence as the draws give
    score_high: float
    weight: float
    reason: str  # empty for an episode that is kept in full
    evidence: float  # in nats, by which episodes are ranked
    corrected_instruction: int | None = None  # another task of the dataset that it follows
    weight_if_corrected: float | None = None  # its weight under that instruction


@dataclass(frozen=True)
class ExpectedMistakes:
    """What the verdicts are expected to have got wrong, by the evidence itself."""

    num_dropped: int
    good_dropped: float
    faulty_kept: float


def decide(quality: Quality, names: Sequence[str], keep_share: float = KEEP_SHARE) -> list[Verdict]:
    """One verdict an episode; ``names`` are the instructions by task."""
    contributions = quality.combination.contributions(quality.scores)  # (E, C)
    threshold, evidence = quality.combination.threshold, quality.evidence
    wrong_label = CHANNEL_NAMES.index("instruction")
    own = np.delete(contributions, wrong_label, axis=1).sum(axis=1)  # under the instruction that it follows
    given = quality.given
    is_corrected = quality.labels != given
    is_out = evidence >= threshold
    rare = rare_episodes(quality)
    ranked = ranked_evidence(quality, rare)
    is_rare = np.isin(np.arange(len(evidence)), list(rare))
    is_spared = _spared(is_out & ~is_rare, quality)
    kept_anyway = _kept_anyway(is_out & ~is_rare & ~is_spared, evidence, given, keep_share)
    scores, lows, highs = (
        quality.combination.false_exclusion(ranked + sign * 1.96 * quality.spread) for sign in (0, 1, -1)
    )
    verdicts = []
    for place in range(len(evidence)):
        reason = describe(quality, contributions[place], place, names)
        weight = _weight(evidence[place], threshold)
        verdict = DROP if is_out[place] else FLAG if evidence[place] >= DOUBT else KEEP
        if is_out[place]:
            weight = 0.0
        if place in rare:
            verdict, weight, reason = FLAG, rare[place][1], f"{rare[place][0]}; {reason}"
        elif is_spared[place]:
            verdict, weight, reason = FLAG, LEAST_WEIGHT, f"one of few that stand out, maybe by chance; {reason}"
        elif kept_anyway[place]:
            verdict, weight, reason = FLAG, LEAST_WEIGHT, f"kept, since its task has few better ones; {reason}"
        corrected = int(quality.labels[place]) if is_corrected[place] and own[place] < threshold else None
        verdicts.append(
            Verdict(
                verdict,
                float(scores[place]),
                float(lows[place]),
                float(highs[place]),
                weight,
                "" if verdict == KEEP else reason,
                float(ranked[place]),
                corrected,
                None if corrected is None else _weight(own[place], threshold),
            )
        )
    return verdicts


def expected_mistakes(quality: Quality, verdicts: Sequence[Verdict]) -> ExpectedMistakes:
    """Good episodes among the dropped ones, by how often chance has as much evidence; faulty ones among the kept.

    Where so few stand out that all of them may be good, those that are dropped are taken to be.
    """
    is_dropped = np.array([one.verdict == DROP for one in verdicts])
    is_doubtful = _doubtful(is_dropped, quality)
    num_doubtful = int(is_doubtful.sum()) if is_doubtful.sum() <= _num_by_chance(quality) else 0
    num_good = int((quality.evidence < DOUBT).sum())
    beyond = float(quality.combination.false_exclusion(np.array([quality.combination.threshold]))[0])
    posterior = 1.0 / (1.0 + np.exp(quality.combination.threshold - quality.evidence))
    kept = ~is_dropped & (quality.evidence >= DOUBT)
    return ExpectedMistakes(
        int(is_dropped.sum()),
        min(float(is_dropped.sum()), max(beyond * num_good, float(num_doubtful))),
        float(posterior[kept].sum()),
    )


def describe(quality: Quality, contributions: Values, place: int, names: Sequence[str]) -> str:
    """The strongest evidence in words, and the second where it counts too.

    What is wrong with the recording itself comes first: the rest follows from it.
    """
    is_cause = np.array([not channel.is_contextual and channel.name != "instruction" for channel in CHANNELS])
    order = np.argsort(-(contributions + np.where(is_cause & (contributions > _ALSO), 1e6, 0.0)), kind="stable")
    parts: list[str] = []
    for number in order[:2]:
        if contributions[number] <= (0.0 if not parts else _ALSO):
            break
        channel, note = CHANNELS[number], quality.notes[place][number]
        text = note or channel.reason
        if channel.name == "instruction" and quality.labels[place] != quality.given[place]:
            text = f"instruction fits another task better: {names[int(quality.labels[place])]!r}"
        parts.append(text)
    return ", ".join(parts)


def _weight(evidence: float, threshold: float) -> float:
    """One up to the evidence that is no evidence, a quarter where it is nearly enough to drop."""
    if evidence < DOUBT:
        return 1.0
    share = min(1.0, (evidence - DOUBT) / max(threshold - DOUBT, 1e-9))
    return float(1.0 - (1.0 - LEAST_WEIGHT) * share)


def rare_episodes(quality: Quality) -> dict[int, tuple[str, float]]:
    """Why an episode may be rare rather than wrong, and what it weighs then."""
    threshold, hard = quality.combination.threshold, _hard_evidence(quality)
    candidates = (quality.evidence >= threshold) & (quality.labels == quality.given) & (hard < threshold)
    if not candidates.any():
        return {}
    doubt = benefit_of_doubt(start_novelty(quality.draws[0].recordings, quality.labels, quality.reference))
    # An unusual start explains a part of the evidence; all of it where hardly any episode needs an explanation.
    explained = (doubt > 0).astype(np.float64) if candidates.sum() <= _num_by_chance(quality) else doubt
    left = hard + (1.0 - explained) * (quality.evidence - hard)
    rare = {}
    for place in np.flatnonzero(candidates & (left < threshold)).tolist():
        weight = min(LEAST_WEIGHT + (1.0 - LEAST_WEIGHT) * float(doubt[place]), _weight(float(left[place]), threshold))
        rare[place] = ("starts where few other episodes do", weight)
    for first, last in differing_sessions(candidates):
        reason = f"one of {last + 1 - first} neighbouring episodes that differ: another session?"
        rare |= {place: (reason, 1.0) for place in range(first, last + 1) if candidates[place]}
    return rare


def ranked_evidence(quality: Quality, rare: Container[int]) -> Values:  # (E,)
    """Evidence against each episode; what only makes it rare is a doubt: no rare one ranks below a wrong one."""
    is_rare = np.array([place in rare for place in range(len(quality.evidence))], dtype=np.bool_)
    doubted = np.minimum(quality.evidence, np.maximum(_hard_evidence(quality), DOUBT))
    ranked: Values = np.where(is_rare, doubted, quality.evidence)
    return ranked


def _hard_evidence(quality: Quality) -> Values:  # (E,)
    """What a rare episode has no excuse for: other channels, and how far one that compares is beyond what is rare."""
    contextual = np.array([channel.is_contextual for channel in CHANNELS])
    contributions = quality.combination.contributions(quality.scores)
    total: Values = np.where(contextual, np.maximum(contributions - _MOST_EXCUSED, 0.0), contributions).sum(axis=1)
    return total


def _spared(is_out: NDArray[np.bool_], quality: Quality) -> NDArray[np.bool_]:  # (E,)
    """What is flagged in place of being dropped, where so few stand out that all of them may be good.

    The most unusual of good episodes look wrong to channels that compare. Where no more episodes are suspicious to them
    than twice the good ones that may be lost, only as many as may be lost are dropped: the worst. What no good episode
    would have against it is dropped however few there are.
    """
    is_doubtful = _doubtful(is_out, quality)
    allowed = quality.combination.max_false_exclusions * len(is_out)
    places = np.flatnonzero(is_doubtful)
    spared = np.zeros(len(is_out), dtype=np.bool_)
    if len(places) <= _num_by_chance(quality):
        worst_first = places[np.argsort(-quality.evidence[places], kind="stable")]
        spared[worst_first[int(allowed) :]] = True
    return spared


def _doubtful(is_out: NDArray[np.bool_], quality: Quality) -> NDArray[np.bool_]:  # (E,) -> (E,)
    """What only channels that compare speak against, and not beyond what chance may make."""
    is_soft = _hard_evidence(quality) < quality.combination.threshold
    return np.asarray(is_out & is_soft & (quality.evidence < _BEYOND_CHANCE))


def _num_by_chance(quality: Quality) -> float:
    """Suspicious episodes that a dataset may have though all of it is good."""
    return max(2.0 * quality.combination.max_false_exclusions * len(quality.evidence), _FEW)


def _kept_anyway(
    is_out: NDArray[np.bool_], evidence: Values, given: NDArray[np.int64], keep_share: float
) -> NDArray[np.bool_]:  # (E,)
    """The best of what would be dropped, where less than a share of a task would be left."""
    kept = np.zeros(len(is_out), dtype=np.bool_)
    for task in np.unique(given):
        rows = np.flatnonzero(given == task)
        missing = math.ceil(keep_share * len(rows)) - int((~is_out[rows]).sum())
        if missing > 0:
            out = rows[is_out[rows]]
            kept[out[np.argsort(evidence[out], kind="stable")[:missing]]] = True
    return kept
