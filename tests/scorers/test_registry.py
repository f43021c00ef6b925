"""Scorers by name: built-in ones, a user's own, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ptr_robot.errors import ConfigError, DataError
from ptr_robot.method.scoring.config import ScreeningConfig
from ptr_robot.scorers import EpisodeScore, EpisodeScorer, EpisodeSet, Track, get_scorer, register_scorer, scorer_names
from ptr_robot.scorers import registry as registry_module
from ptr_robot.scorers.base import SuspicionRule
from ptr_robot.scorers.mutual_information import contributions


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


def test_path_efficiency_and_mutual_information_by_plain_loops() -> None:
    one = track(5, frames=12)
    length = sum(float(np.linalg.norm(one.states[t + 1] - one.states[t])) for t in range(11))
    (row,) = get_scorer("path-efficiency").score(EpisodeSet((one,)))
    assert -row.score == pytest.approx(length / float(np.linalg.norm(one.states[-1] - one.states[0])), rel=1e-5)
    generator = np.random.default_rng(0)
    states, actions = generator.standard_normal((30, 2)), generator.standard_normal((30, 1))
    found = contributions(torch.from_numpy(states), torch.from_numpy(actions)).numpy()
    for sample in range(30):
        in_states = np.abs(states - states[sample]).max(axis=1)
        in_actions = np.abs(actions - actions[sample]).max(axis=1)
        radius = np.sort(np.maximum(in_states, in_actions))[5]
        counts = [int((distances < radius).sum()) for distances in (in_states, in_actions)]
        digamma = torch.digamma(torch.tensor([5.0, 30.0, *counts], dtype=torch.float64)).numpy()
        assert found[sample] == pytest.approx(digamma[0] + digamma[1] - digamma[2] - digamma[3])


def test_the_guides_example_works(empty_registry: None) -> None:
    """docs/add_a_scorer.md, as it is written there."""
    text = (Path(__file__).parents[2] / "docs/add_a_scorer.md").read_text()
    exec(text.split("```python\n")[1].split("```")[0], {})  # the repository's own page
    rows = get_scorer("last-step").score(EpisodeSet((track(1), track(2))))
    assert [row.episode_index for row in rows] == [1, 2]
