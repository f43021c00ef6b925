"""Scorers by name: built-in ones, a user's own, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from ptr_robot.errors import ConfigError, DataError
from ptr_robot.method.scoring.config import ScreeningConfig
from ptr_robot.scorers import EpisodeScore, EpisodeScorer, EpisodeSet, Track, get_scorer, register_scorer, scorer_names
from ptr_robot.scorers import registry as registry_module
from ptr_robot.scorers.base import SuspicionRule


def track(number: int, frames: int = 40, task: str = "a") -> Track:
    generator = np.random.default_rng(number)
    states = np.cumsum(generator.standard_normal((frames, 3)), axis=0).astype(np.float32)
    return Track(number, task, states, np.diff(states, axis=0, append=states[-1:]).astype(np.float32))


@pytest.fixture
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    scorer_names()
    monkeypatch.setattr(registry_module, "_registered", dict(registry_module._registered))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads that hardly learn: what is tested here does not depend on them."""
    few = ScreeningConfig(steps=3, batch_size=8, pool_size=8, hidden_dim=8, num_folds=2)
    monkeypatch.setattr("ptr_robot.scorers.screening.ScreeningConfig", lambda: few)
    monkeypatch.setattr("ptr_robot.scorers.action_error.STEPS", 3)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", scorer_names())
def test_every_scorer_gives_one_row_an_episode_in_order_and_repeats(name: str) -> None:
    episodes = EpisodeSet(tuple(track(number, task="ab"[number % 2]) for number in (3, 1, 7, 8, 9, 20)), 8)
    rows = get_scorer(name).score(episodes)
    assert [(row.episode_index, row.task) for row in rows] == [(t.episode_index, t.task) for t in episodes.tracks]
    assert get_scorer(name).score(episodes) == rows


def test_a_users_scorer_is_found_by_its_name(empty_registry: None) -> None:
    @register_scorer
    class Constant(EpisodeScorer):
        name = "constant"
        title = "constant"

        def score(self, episodes, report=None):
            return [EpisodeScore(track.episode_index, track.task, 1.0) for track in episodes.tracks]

    assert "constant" in scorer_names()
    assert get_scorer("constant").score(EpisodeSet((track(4),))) == [EpisodeScore(4, "a", 1.0)]


def test_two_scorers_of_one_name_are_refused(empty_registry: None) -> None:
    class Other(EpisodeScorer):
        name = "jerk"
        title = "another jerk"

    with pytest.raises(ConfigError, match="two scorers 'jerk'"):
        register_scorer(Other)


def test_a_misspelt_name_gets_a_hint() -> None:
    with pytest.raises(ConfigError, match="did you mean 'jerk'"):
        get_scorer("jerks")


def test_a_rule_that_forgets_an_episode_is_refused() -> None:
    class Forgetful(SuspicionRule):
        name = "forgetful"
        title = "forgetful"

        def suspicions(self, episodes):
            return [0.0]

    with pytest.raises(DataError, match="1 values for 2 episodes"):
        Forgetful().score(EpisodeSet((track(0), track(1))))


@pytest.mark.usefixtures("quick")
def test_screening_cannot_judge_what_is_no_longer_than_a_chunk() -> None:
    episodes = EpisodeSet((*(track(number) for number in range(4)), track(4, frames=8)), 8)
    scores = [row.score for row in get_scorer("screening").score(episodes)]
    assert np.isnan(scores[4])
    assert not np.isnan(scores[:4]).any()
