"""Rules on made episodes whose culprit is known, and against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ptr_robot.errors import DataError
from ptr_robot.scorers import EpisodeSet, get_scorer
from ptr_robot.scorers.action_error import NUM_FOLDS, cross_validated_error, fold_of_tracks
from ptr_robot.scorers.neighbours import NUM_NEIGHBOURS, neighbour_deviation
from ptr_robot.scorers.tracks import Track, whole_chunks

CHUNK = 4


def follow(number: int, task: str = "a", frames: int = 30, sign: float = 1.0, noise: float = 0.0) -> Track:
    """States walk along a circle; actions are a smooth function of the state, or that function turned round."""
    generator = np.random.default_rng(number)
    angle = np.linspace(0, 2, frames) + generator.uniform(0, 0.3)
    states = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    actions = sign * states[:, ::-1] + noise * generator.standard_normal(states.shape)
    return Track(number, task, states, actions.astype(np.float32))


def suspicions(name: str, tracks: list[Track]) -> list[float]:
    return [-row.score for row in get_scorer(name).score(EpisodeSet(tuple(tracks), CHUNK))]


@pytest.fixture(scope="module")
def tracks() -> list[Track]:
    """Episode 5 does the opposite of the others, episode 9 trembles; two tasks."""
    made = [follow(number, "a" if number < 10 else "b") for number in range(20)]
    made[5] = follow(5, sign=-1.0)
    made[9] = follow(9, noise=0.5)
    return made


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what does not depend on how well the regressor is fitted."""
    monkeypatch.setattr("ptr_robot.scorers.action_error.STEPS", 5)


@pytest.mark.parametrize("name", ["action-error", "knn"])
def test_who_acts_unlike_the_others_is_suspected(name: str, tracks: list[Track]) -> None:
    values = suspicions(name, tracks)
    assert len(values) == len(tracks)
    assert set(np.argsort(values)[-2:]) == {5, 9}


def test_jerk_finds_the_one_that_trembles_and_only_it(tracks: list[Track]) -> None:
    values = suspicions("jerk", tracks)
    assert np.argmax(values) == 9
    assert values[5] == pytest.approx(np.median(values), rel=0.5)


def test_jerk_and_length_by_plain_loops() -> None:
    track = follow(1, frames=6, noise=0.1)
    total = 0.0
    for t in range(1, 5):
        for d in range(2):
            total += float(track.actions[t + 1, d] - 2 * track.actions[t, d] + track.actions[t - 1, d]) ** 2
    assert suspicions("jerk", [track]) == pytest.approx([total / 8], rel=1e-4)
    assert suspicions("length", [track]) == [6.0]
    assert suspicions("jerk", [follow(1, frames=2)]) == [0.0]


def test_neighbours_by_plain_loops() -> None:
    made = [follow(number, "ab"[number % 2], frames=9, noise=0.3) for number in range(6)]
    expected = []
    for own in made:
        distances = []
        for t in range(own.num_frames - CHUNK + 1):
            others = [
                (float(np.linalg.norm(own.states[t] - other.states[s])), other.actions[s : s + CHUNK])
                for other in made
                if other is not own and other.task == own.task
                for s in range(other.num_frames - CHUNK + 1)
            ]
            nearest = sorted(others, key=lambda pair: pair[0])[:NUM_NEIGHBOURS]
            mean = np.mean([chunk for _, chunk in nearest], axis=0)
            distances.append(float(np.linalg.norm(own.actions[t : t + CHUNK] - mean)))
        expected.append(sum(distances) / len(distances))
    assert neighbour_deviation(made, CHUNK) == pytest.approx(expected, rel=1e-4)


def test_chunks_are_whole_and_in_order() -> None:
    made = [follow(0, frames=6), follow(1, frames=3), follow(2, frames=4)]
    chunks = whole_chunks(made, CHUNK)
    assert chunks.owners.tolist() == [0, 0, 0, 2]
    windows = chunks.actions.reshape(4, 2, CHUNK)  # (N, Da, L)
    np.testing.assert_array_equal(windows[1].T, made[0].actions[1 : 1 + CHUNK])
    np.testing.assert_array_equal(chunks.states[3], made[2].states[0])


def test_an_episode_shorter_than_a_chunk_has_no_value(few_steps: None) -> None:
    made = [*(follow(number) for number in range(4)), follow(4, frames=CHUNK - 1)]
    for name in ("action-error", "knn"):
        values = suspicions(name, made)
        assert math.isnan(values[4])
        assert not any(math.isnan(value) for value in values[:4])


def test_folds_deal_out_every_task(tracks: list[Track]) -> None:
    folds = fold_of_tracks(tracks, seed=3)
    for task in "ab":
        counts = np.bincount(folds[[place for place, track in enumerate(tracks) if track.task == task]])
        assert counts.tolist() == [2] * NUM_FOLDS
    assert (fold_of_tracks(tracks, seed=3) == folds).all()
    assert (fold_of_tracks(tracks, seed=4) != folds).any()


def test_action_error_repeats_and_leaves_the_global_generator_alone(few_steps: None, tracks: list[Track]) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = cross_validated_error(tracks, CHUNK, 0)
    assert torch.equal(torch.get_rng_state(), before)
    assert cross_validated_error(tracks, CHUNK, 0) == first


def test_one_episode_cannot_be_cross_validated() -> None:
    with pytest.raises(DataError, match="at least 2 episodes"):
        cross_validated_error([follow(0)], CHUNK, 0)
