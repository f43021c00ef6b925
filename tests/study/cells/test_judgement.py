"""From suspicion to filter and weight, and how well either finds a fault."""

from __future__ import annotations

import math

import pytest

from ptr_robot.data.ground_truth import EpisodeTruth, Fault
from ptr_robot.study.analysis.detection import auroc_by_fault, count_of, mean_weights
from ptr_robot.study.cells.judgement import Suspicion, episode_weights, kept_episodes
from ptr_robot.study.cells.scored_episode import ScoredEpisode
from ptr_robot.study.spec.method_row import EpisodeFilter, EpisodeWeighting

SUSPICIONS = [
    Suspicion(0, "a", 3.0),
    Suspicion(1, "a", 1.0),
    Suspicion(2, "a", 2.0),
    Suspicion(3, "b", 50.0),
    Suspicion(4, "b", 70.0),
    Suspicion(5, "b", 60.0),
    Suspicion(6, "b", 80.0),
]
TRUTHS = {number: EpisodeTruth(number, (Fault("jitter", 0, 1),) if number in (0, 4) else ()) for number in range(7)}


def test_the_better_part_of_each_task_stays() -> None:
    assert kept_episodes(EpisodeFilter("knn"), SUSPICIONS, TRUTHS) == [1, 2, 3, 5]
    assert kept_episodes(EpisodeFilter("knn", keep=0.25), SUSPICIONS, TRUTHS) == [1, 3]
    assert kept_episodes(EpisodeFilter("knn", keep=1.0), SUSPICIONS, TRUTHS) == list(range(7))
    assert kept_episodes(EpisodeFilter("truth"), SUSPICIONS, TRUTHS) == [1, 2, 3, 5, 6]


def test_weights_by_plain_arithmetic() -> None:
    weights = episode_weights(EpisodeWeighting("knn", beta=0.8), SUSPICIONS, TRUTHS)
    for task in "ab":
        group = [suspicion for suspicion in SUSPICIONS if suspicion.task == task]
        mean = sum(s.value for s in group) / len(group)
        deviation = math.sqrt(sum((s.value - mean) ** 2 for s in group) / len(group))
        for s in group:
            expected = min(4.0, max(0.25, math.exp((mean - s.value) / deviation / 0.8)))
            assert weights[s.episode_index] == pytest.approx(expected)


def test_weights_where_all_are_alike_and_by_the_truth() -> None:
    alike = [Suspicion(number, "a", 2.0) for number in range(3)]
    assert episode_weights(EpisodeWeighting("knn"), alike, TRUTHS) == {0: 1.0, 1: 1.0, 2: 1.0}
    weights = episode_weights(EpisodeWeighting("truth", w_min=0.0, w_max=1.0), [], TRUTHS)
    assert [number for number, weight in weights.items() if weight == 0.0] == [0, 4]


def judged(task: str, score: float, *faults: str, source: int = 0) -> ScoredEpisode:
    return ScoredEpisode(source, 0, task, faults, score, weight=score + 1)


def test_auroc_counts_pairs_within_tasks_and_sources() -> None:
    episodes = [
        judged("a", 5, "jitter"),
        judged("a", 6),
        judged("a", 4),
        judged("b", 1, "jitter", "pause"),
        judged("b", 2),
        judged("b", 1),
        judged("b", 9, source=1),
        judged("c", 0, "pause"),
    ]
    wins, pairs = {"any": 0.0, "jitter": 0.0, "pause": 0.0}, {"any": 0, "jitter": 0, "pause": 0}
    for bad in episodes:
        for good in episodes:
            if bad.faults and not good.faults and (bad.source, bad.task) == (good.source, good.task):
                for kind in {"any", *bad.faults}:
                    wins[kind] += 1.0 if good.score > bad.score else 0.5 if good.score == bad.score else 0.0
                    pairs[kind] += 1
    areas = auroc_by_fault(episodes, lambda episode: episode.score)
    assert areas == pytest.approx({kind: wins[kind] / pairs[kind] for kind in wins})
    assert count_of(episodes, "any") == 3
    assert count_of(episodes, "jitter") == 2


def test_what_was_not_judged_has_no_auroc() -> None:
    episodes = [ScoredEpisode(0, 0, "a", ("jitter",)), ScoredEpisode(0, 1, "a", ())]
    assert auroc_by_fault(episodes, lambda episode: episode.score) == {"any": None, "jitter": None}
    assert auroc_by_fault([judged("a", 1)], lambda episode: episode.score) == {}
    assert mean_weights(episodes) == {"good": None, "faulty": None}


def test_mean_weights_of_good_and_faulty() -> None:
    episodes = [judged("a", 0, "jitter"), judged("a", 2), judged("b", 4)]
    assert mean_weights(episodes) == {"good": 4.0, "faulty": 1.0}


def test_what_a_rule_cannot_judge_comes_last_and_weighs_one() -> None:
    unjudged = [Suspicion(0, "a", math.nan), *SUSPICIONS[1:3], Suspicion(7, "a", 9.0), Suspicion(8, "a", math.nan)]
    assert kept_episodes(EpisodeFilter("knn"), unjudged, {}) == [1, 2, 7]
    assert kept_episodes(EpisodeFilter("knn", keep=0.8), unjudged, {}) == [0, 1, 2, 7]
    weights = episode_weights(EpisodeWeighting("knn"), unjudged, {})
    assert weights.pop(0) == weights.pop(8) == 1.0
    judged_alone = [suspicion for suspicion in unjudged if not math.isnan(suspicion.value)]
    assert weights == episode_weights(EpisodeWeighting("knn"), judged_alone, {})
    assert set(episode_weights(EpisodeWeighting("knn"), [unjudged[0]], {}).values()) == {1.0}
