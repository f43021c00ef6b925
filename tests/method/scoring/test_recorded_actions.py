"""Channels of the recorded actions themselves: noise, and whether the robot carried them out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptr_robot.method.scoring.channels.command import Command
from ptr_robot.method.scoring.channels.duration import Duration
from ptr_robot.method.scoring.channels.prediction import WhichConsequence
from ptr_robot.method.scoring.channels.progress import Beginning
from ptr_robot.method.scoring.channels.smoothness import ActionNoise
from ptr_robot.method.scoring.injections import INJECTORS
from ptr_robot.method.scoring.recordings import Recording, Recordings

from .made_recordings import make_recordings, replace_episodes


@pytest.fixture(scope="module")
def folded() -> Recordings:
    return make_recordings(num=40).with_folds(0)


def injected(kind: str, recordings: Recordings, places: list[int]) -> dict[int, Recording]:
    injector = next(one for one in INJECTORS if one.kind == kind)
    generator = np.random.default_rng(3)
    changed = {place: injector.inject(recordings.episodes[place], recordings, generator) for place in places}
    assert None not in changed.values()
    return {place: episode for place, episode in changed.items() if episode is not None}


@pytest.mark.parametrize("kind", ["swapped_dimensions", "timing"])
def test_actions_that_were_not_carried_out_are_known(kind: str, folded: Recordings) -> None:
    """A third of the episodes is changed, and the model learns from them, too."""
    places = list(range(0, 40, 3))
    recordings = replace_episodes(folded, injected(kind, folded, places))
    fitted = Command().fit(recordings, seed=0)
    assert fitted is not None
    values = np.array([fitted.measure(episode).value for episode in recordings.episodes])
    is_changed = np.isin(np.arange(40), places)
    assert np.median(values[is_changed]) > np.quantile(values[~is_changed], 0.9)


def test_states_that_say_nothing_of_the_actions_keep_it_silent(folded: Recordings) -> None:
    generator = np.random.default_rng(0)
    episodes = tuple(
        replace(episode, actions=generator.standard_normal(episode.actions.shape).astype(np.float32))
        for episode in folded.episodes
    )
    assert Command().fit(replace(folded, episodes=episodes), seed=0) is None


def test_a_pose_that_no_other_episode_has_counts_less(folded: Recordings) -> None:
    """Errors that are as large as can be, once in usual poses and once where the model saw nothing."""
    fitted = Command().fit(folded, seed=0)
    assert fitted is not None
    episode = folded.episodes[0]
    wrong = replace(episode, actions=(episode.actions + 50.0).astype(np.float32))
    elsewhere = replace(wrong, states=(episode.states + 4.0).astype(np.float32))
    assert fitted.measure(elsewhere).value < fitted.measure(wrong).value


def test_noise_shows_in_a_dimension_that_is_usually_still() -> None:
    """A gripper that stays shut in every episode but the one with noise on all actions."""
    base = make_recordings(num=20)
    rough = np.random.default_rng(0)
    episodes = []
    for number, episode in enumerate(base.episodes):
        gripper = np.where(np.arange(episode.num_frames) > 30, 1.0, -1.0)[:, None]
        shake = (0.01 + 0.02 * (number % 4)) * rough.standard_normal(episode.actions.shape)
        episodes.append(
            replace(episode, actions=np.concatenate([episode.actions + shake, gripper], axis=1).astype(np.float32))
        )
    noisy = episodes[8].actions + 0.05 * rough.standard_normal(episodes[8].actions.shape)
    episodes[8] = replace(episodes[8], actions=noisy.astype(np.float32))
    fitted = ActionNoise().fit(replace(base, episodes=tuple(episodes)), seed=0)
    assert fitted is not None
    values = [fitted.measure(episode).value for episode in episodes]
    assert int(np.argmax(values)) == 8


def test_a_single_jump_is_no_noise(folded: Recordings) -> None:
    fitted = ActionNoise().fit(folded, seed=0)
    assert fitted is not None
    jumping = folded.episodes[1].actions.copy()
    jumping[30:] += 1.0
    change = fitted.measure(replace(folded.episodes[1], actions=jumping)).value
    values = np.array([fitted.measure(episode).value for episode in folded.episodes])
    assert change < values.mean() + 3.0 * values.std()


def test_an_episode_of_half_the_usual_length_is_named(folded: Recordings) -> None:
    fitted = Duration().fit(folded, seed=0)
    assert fitted is not None
    episode = folded.episodes[0]
    half = replace(episode, states=episode.states[::2], actions=episode.actions[::2])
    found = fitted.measure(half)
    assert found.value == pytest.approx(np.log(2), abs=0.3)
    assert "shorter" in found.note
    assert fitted.measure(episode).value < found.value


def test_every_task_has_a_usual_surprise() -> None:
    """Many tasks recorded in turn: what a chunk that nothing is known of counts as is known for each."""
    recordings = make_recordings(num=180, num_tasks=20)
    recordings = recordings.with_tasks(recordings.tasks.tolist()).with_folds(0)
    fitted = WhichConsequence().fit(recordings, seed=0)
    assert fitted is not None
    assert set(fitted.usual) == set(fitted.expectation.models)


def test_quick_moments_may_be_harder_to_tell(folded: Recordings) -> None:
    """The record alone is rough where the hand is quick: a quick episode is no faulty one."""
    generator = np.random.default_rng(2)

    def rough(episode: Recording) -> Recording:
        speed = np.abs(np.gradient(episode.states, axis=0)).mean(axis=1, keepdims=True)
        noise = 4.0 * speed * generator.standard_normal(episode.actions.shape)
        return replace(episode, actions=(episode.actions + noise).astype(np.float32))

    recordings = replace(folded, episodes=tuple(rough(episode) for episode in folded.episodes))
    fitted = Command().fit(recordings, seed=0)
    assert fitted is not None
    assert fitted.factors.mean(axis=1)[-1] > 2.0 * fitted.factors.mean(axis=1)[0]
    one = replace(fitted, levels=np.zeros(1), factors=np.ones((1, fitted.factors.shape[1])))
    logs = [np.concatenate([f._squares(e)[1].mean(axis=1) for e in recordings.episodes]) for f in (one, fitted)]
    motion = np.concatenate([fitted._motion(e, fitted._squares(e)[0]) for e in recordings.episodes])
    by_speed = [np.corrcoef(np.log(values + 1e-3), motion)[0, 1] for values in logs]
    assert by_speed[1] < 0.5 * by_speed[0]


def test_moments_that_stand_still_are_one_level_in_any_order(folded: Recordings) -> None:
    still = np.zeros((30, 3), dtype=np.float32)
    episodes = tuple(
        replace(e, states=np.concatenate([still + e.states[0], e.states]), actions=np.concatenate([still, e.actions]))
        for e in folded.episodes
    )
    found = []
    for order in (episodes, episodes[::-1]):
        fitted = Command().fit(replace(folded, episodes=order), seed=0)
        assert fitted is not None
        assert len(np.unique(fitted.levels)) == len(fitted.levels)
        found.append(fitted)
    np.testing.assert_allclose(found[0].levels, found[1].levels, rtol=1e-6)


def test_an_episode_that_begins_in_the_middle_is_named() -> None:
    recordings = make_recordings(40, num_tasks=1).with_folds(0)
    good = recordings.episodes[7]
    late = replace(good, states=good.states[good.num_frames // 2 :], actions=good.actions[good.num_frames // 2 :])
    fitted = Beginning().fit(recordings, seed=0)
    assert fitted is not None
    found = fitted.measure(late)
    assert found.value > max(fitted.measure(episode).value for episode in recordings.episodes)
    assert "begins when about" in found.note
