"""The table's numbers, recomputed by plain loops."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.study.analysis.detection import auroc, weight_auroc
from ptr_robot.study.analysis.outcome import Comparison, MethodOutcome, verdict
from ptr_robot.study.cells.record import EpisodeOutcome
from ptr_robot.study.cells.scored_episode import ScoredEpisode


def outcome(name: str, num_successes: int, num_episodes: int = 40, area: float = math.nan) -> MethodOutcome:
    episodes = [EpisodeOutcome("reach-v3", seed, seed < num_successes, 10) for seed in range(num_episodes)]
    return MethodOutcome(name, name.upper(), tuple(episodes), area)


def compare(sft: int, ptr: int, clean: int) -> Comparison:
    return Comparison((outcome("sft", sft), outcome("ptr", ptr, area=0.8), outcome("clean", clean)), "sft", "clean")


def judged(number: int, weight: float, is_faulty: bool, task: str = "a") -> ScoredEpisode:
    return ScoredEpisode(0, number, task, ("jitter",) if is_faulty else (), weight, weight)


def test_the_share_of_the_gap() -> None:
    comparison = compare(sft=10, ptr=20, clean=30)
    assert comparison.gap_share("ptr") == pytest.approx((20 - 10) / (30 - 10))
    assert comparison.difference("ptr").estimate == pytest.approx(10 / 40)
    assert comparison.describe_share("ptr") == "+50%"
    assert comparison.describe_share("sft") == comparison.describe_share("clean") == "-"


def test_a_method_may_lose_or_exceed() -> None:
    assert compare(10, 5, 30).describe_share("ptr") == "-25%"
    assert compare(10, 40, 30).describe_share("ptr") == "+150%"


@pytest.mark.parametrize("clean", [10, 5])
def test_without_a_gap_there_is_no_share(clean: int) -> None:
    comparison = compare(10, 20, clean)
    assert comparison.gap_share("ptr") is None
    assert comparison.describe_share("ptr") == "undefined"
    assert any("no gap to recover" in sentence for sentence in verdict(comparison))
    assert comparison.as_json()["methods"]["ptr"]["gap_share"] is None


def test_a_gap_that_may_be_chance_is_marked() -> None:
    comparison = compare(20, 20, 21)
    assert comparison.describe_share("ptr") == "+0%?"
    assert any("may be chance" in sentence for sentence in verdict(comparison))


@pytest.mark.parametrize(("ptr", "word"), [(30, "helps"), (2, "hurts"), (20, "makes no difference")])
def test_the_verdict_follows_the_interval(ptr: int, word: str) -> None:
    sentences = verdict(compare(20, ptr, 35))
    assert any(sentence.startswith(f"PTR {word}") for sentence in sentences)
    assert "One training seed" in sentences[-1]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_auroc_counts_pairs(lower: list[int], higher: list[int]) -> None:
    wins = sum(1.0 if h > low else 0.5 if h == low else 0.0 for h in higher for low in lower)
    assert auroc(lower, higher) == pytest.approx(wins / (len(lower) * len(higher)))


def test_weights_are_compared_within_tasks() -> None:
    # Across tasks the marked episodes of "b" outweigh the good ones of "a"; within each task the good ones win.
    episodes = [judged(0, 1.0, True), judged(1, 2.0, False), judged(2, 8.0, True, "b"), judged(3, 9.0, False, "b")]
    assert weight_auroc(episodes) == 1.0
    # Task "a" has two pairs, one of them won; task "b" one pair, lost.
    episodes = [judged(0, 1.0, True), judged(1, 3.0, True), judged(2, 2.0, False)]
    episodes += [judged(3, 5.0, True, "b"), judged(4, 4.0, False, "b")]
    assert weight_auroc(episodes) == pytest.approx((0.5 * 2 + 0.0 * 1) / 3)


def test_without_marked_episodes_there_is_no_area() -> None:
    assert math.isnan(weight_auroc([judged(0, 1.0, False)]))
    assert math.isnan(auroc([], [1.0]))
