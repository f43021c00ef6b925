"""The quality of made episodes: faults of known kinds are found and named, good ones stay, equal runs are equal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from ptr_robot.errors import ConfigError, DataError, NonFiniteError
from ptr_robot.method.scoring import verdicts
from ptr_robot.method.scoring.check import check
from ptr_robot.method.scoring.combination import Mixture
from ptr_robot.method.scoring.injections import INJECTORS
from ptr_robot.method.scoring.quality import CHANNEL_NAMES, Quality, QualityConfig, assess
from ptr_robot.method.scoring.recordings import Recordings
from ptr_robot.method.scoring.reference_set import calibrate
from ptr_robot.method.scoring.verdicts import DROP, FLAG, decide, expected_mistakes

from .made_recordings import make_recordings, reach, replace_episodes

CONFIG = QualityConfig(num_seeds=1, chunk_length=8)
NAMES = ("go right", "go left")


@pytest.fixture(scope="module")
def good():
    return make_recordings()


@pytest.fixture(scope="module")
def quality(good):
    return assess(good, CONFIG)


def test_good_episodes_stay(quality) -> None:
    verdicts = decide(quality, NAMES)
    assert sum(one.verdict == DROP for one in verdicts) <= 1
    assert expected_mistakes(quality, verdicts).good_dropped <= 0.05 * len(verdicts) + 1


def test_equal_runs_are_equal(good, quality) -> None:
    again = assess(good, CONFIG)
    np.testing.assert_array_equal(again.scores, quality.scores)
    np.testing.assert_array_equal(again.evidence, quality.evidence)


@pytest.mark.parametrize("kind", [one.kind for one in INJECTORS if one.kind != "dead_camera"])
def test_an_injected_fault_stands_out(kind: str, good, quality) -> None:
    generator = np.random.default_rng(5)
    injector = next(one for one in INJECTORS if one.kind == kind)
    copies = [injector.inject(good.episodes[place], good, generator) for place in range(8)]
    assert all(copy is not None for copy in copies)
    scores = quality.measure(copies, range(8), [int(task) for task in good.tasks[:8]])
    assert np.median(quality.combination.evidence(scores)) > np.quantile(quality.evidence, 0.9)


def test_faults_in_the_dataset_are_dropped_and_named(good) -> None:
    generator = np.random.default_rng(6)
    injectors = {one.kind: one for one in INJECTORS}
    changed = {
        3: injectors["dead"].inject(good.episodes[3], good, generator),
        10: injectors["pause"].inject(good.episodes[10], good, generator),
    }
    faulty = assess(replace_episodes(good, changed), CONFIG)
    verdicts = decide(faulty, NAMES)
    assert {place for place in changed if verdicts[place].verdict == DROP} == set(changed)
    assert "move" in verdicts[3].reason or "still" in verdicts[3].reason
    assert all(one.score >= 0 and one.score_low <= one.score <= one.score_high for one in verdicts)


def test_a_wrong_instruction_is_corrected(good) -> None:
    wrong = replace(good.episodes[4], task=1)
    found = assess(replace_episodes(good, {4: wrong}), CONFIG)
    verdict = decide(found, NAMES)[4]
    assert verdict.corrected_instruction == 0
    assert "another task" in verdict.reason
    assert verdict.weight == 0.0
    assert verdict.weight_if_corrected == 1.0


def test_the_instruction_channel_is_silent_where_there_is_one_task() -> None:
    one_task = make_recordings(16, num_tasks=1)
    found = assess(one_task, CONFIG)
    assert np.isnan(found.scores[:, CHANNEL_NAMES.index("instruction")]).all()


def test_frames_of_a_pause_are_the_weakest(good) -> None:
    injector = next(one for one in INJECTORS if one.kind == "pause")
    paused = injector.inject(good.episodes[2], good, np.random.default_rng(1))
    found = assess(replace_episodes(good, {2: paused}), CONFIG)
    idle = found.frames[2]["idle"]
    assert len(idle) == paused.num_frames
    assert idle.min() < 0.2 < idle.max()


def test_the_check_reports_every_kind(quality) -> None:
    results = check(quality, seed=0)
    assert {result.kind for result in results} >= {"dead", "pause", "truncation", "wrong_instruction"}
    for result in results:
        assert result.auroc_low <= result.auroc <= result.auroc_high
        assert 0.0 <= result.recall <= 1.0
    assert next(result for result in results if result.kind == "dead").auroc > 0.95


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(DataError, match="at least 4"):
        assess(Recordings((reach(0, 0), reach(1, 0)), 20.0), CONFIG)
    with pytest.raises(ConfigError, match="max_false_exclusions"):
        QualityConfig(max_false_exclusions=1.5)
    broken = reach(0, 0)
    broken.states[3, 1] = np.nan
    with pytest.raises(NonFiniteError, match="episode 1"):
        Recordings((reach(1, 0), broken), 20.0)


def test_short_episodes_are_scored_by_what_can_be_measured() -> None:
    short = [reach(number, 0, frames=14) for number in range(6)]
    found = assess(Recordings(tuple(short), 20.0), replace(CONFIG, chunk_length=32))
    assert np.isfinite(found.evidence).all()


def test_states_that_never_move_are_scored() -> None:
    still = tuple(
        replace(reach(number, number % 2), states=np.full_like(reach(number, number % 2).states, 0.37))
        for number in range(12)
    )
    found = assess(Recordings(still, 20.0, chunk_length=8), CONFIG)
    assert np.isfinite(found.evidence).all()
    assert len(decide(found, NAMES)) == 12


def suspicious(quality: Quality, channel: str, places: Iterable[int], score: float, mixture: Mixture) -> Quality:
    """Ordinary in every channel but one, in which these places have that score; what was set so before stays."""
    number = CHANNEL_NAMES.index(channel)
    scores = np.where(np.isfinite(quality.scores), np.where(quality.scores >= 12.0, quality.scores, 0.0), np.nan)
    scores[list(places), number] = score
    mixtures = list(quality.combination.mixtures)
    mixtures[number] = mixture
    combination = replace(quality.combination, mixtures=tuple(mixtures), threshold=2.0)
    evidence = combination.evidence(scores)
    return replace(quality, scores=scores, combination=combination, evidence=evidence, labels=quality.given)


def test_few_suspicious_episodes_are_dropped_only_where_chance_cannot_be(quality) -> None:
    """Evidence that compares: moderate for four of 24 episodes, then beyond chance for one of them."""
    places = [0, 7, 14, 21]  # no session of their own
    few = suspicious(quality, "ending", places, 12.0, Mixture(0.2, 0.2))
    assert (few.evidence[places] > 2.0).all()
    assert (few.evidence[places] < 12.0).all()
    verdicts_of_few = decide(few, NAMES)
    assert [one.verdict for one in verdicts_of_few].count(DROP) == 1
    assert expected_mistakes(few, verdicts_of_few).good_dropped >= 1.0  # the worst of four may be good, too
    beyond = suspicious(few, "phase", [14], 60.0, Mixture(0.2, 0.1))
    assert beyond.evidence[14] > 12.0
    assert decide(beyond, NAMES)[14].verdict == DROP


@pytest.mark.parametrize(("num_suspicious", "mild"), [(12, DROP), (3, FLAG)])
def test_an_unusual_start_explains_as_much_as_it_is_unusual(num_suspicious, mild, quality, monkeypatch) -> None:
    """All of the evidence where few episodes need an excuse, and otherwise its share of it."""
    found = suspicious(quality, "ending", range(0, 2 * num_suspicious, 2), 12.0, Mixture(0.4, 0.2))
    novelty = np.zeros(24)
    novelty[[0, 2]] = [1.6, 5.0]  # a little unusual, and one that no other episode has
    monkeypatch.setattr(verdicts, "start_novelty", lambda *_: novelty)
    decided = decide(found, NAMES, keep_share=0.0)
    assert decided[0].verdict == mild
    assert decided[2].verdict == FLAG
    assert decided[0].weight < decided[2].weight


def test_no_start_is_so_unusual_that_it_explains_any_evidence(quality, monkeypatch) -> None:
    """A recording fault makes the start unusual as well as the rest."""
    found = suspicious(quality, "command", [0], 300.0, Mixture(0.4, 0.1))
    monkeypatch.setattr(verdicts, "start_novelty", lambda *_: np.where(np.arange(24) == 0, 9.0, 0.0))
    assert found.evidence[0] > 12.0
    assert decide(found, NAMES)[0].verdict == DROP


def test_good_episodes_that_differ_much_are_not_half_faulty() -> None:
    """A channel that compares finds a half of them alike; no other channel finds a fault in the other half."""
    generator = np.random.default_rng(4)
    values = generator.standard_normal((60, 6))
    values[:30, 0] *= 0.1
    values[30:, 0] = generator.uniform(0.5, 4.0, 30)  # thin, and above the dense half
    tasks, floors = np.zeros((60, 6), dtype=np.int64), (0.05,) * 6
    alone = calibrate(values, tasks, floors, (False,) * 6)[1]
    compared = calibrate(values, tasks, floors, (True,) + (False,) * 5)[1]
    assert np.median(alone[30:, 0]) > 6.0
    assert np.median(compared[30:, 0]) < 0.5 * np.median(alone[30:, 0])
    np.testing.assert_array_equal(compared[:, 1:], alone[:, 1:])
