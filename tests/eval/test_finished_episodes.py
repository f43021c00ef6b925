"""A stopped evaluation goes on where it was: what is finished is read back, what is not is run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ptr_robot.envs.registry import environment_type
from ptr_robot.eval.finished_episodes import FILE, FinishedEpisodes
from ptr_robot.eval.results import EpisodeResult
from ptr_robot.eval.rollout_policy import RolloutEpisode
from ptr_robot.eval.rollouts import RolloutConfig, rollout
from tests.envs.conftest import SMALL_CAMERA

DONE = EpisodeResult("reach-v3", seed=4, is_success=True, num_steps=7, num_looks=0, initial_state=None)


class Still:
    """Does nothing, and counts how often it begins."""

    def __init__(self) -> None:
        self.begun: list[int] = []

    def reset(self, slot, episode) -> None:
        self.begun.append(episode.seed)

    def act(self, observations):
        return np.zeros((len(observations), 8, 4))


def test_what_is_finished_with_the_same_settings_is_read_back(tmp_path: Path) -> None:
    finished = FinishedEpisodes(tmp_path, "these")
    assert finished.read() == {}
    finished.add(DONE)
    finished.add(replace(DONE, seed=5, is_success=False))
    FinishedEpisodes(tmp_path, "others").add(replace(DONE, seed=6))
    assert finished.read() == {
        RolloutEpisode("reach-v3", 4): DONE,
        RolloutEpisode("reach-v3", 5): replace(DONE, seed=5, is_success=False),
    }
    finished.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_a_killed_process_left_half_costs_that_episode_alone(tmp_path: Path) -> None:
    finished = FinishedEpisodes(tmp_path, "these")
    finished.add(DONE)
    path = tmp_path / FILE
    path.write_text(path.read_text() + '{"identity": "these", "task": "rea')
    finished.add(replace(DONE, seed=5))
    assert [episode.seed for episode in finished.read()] == [4, 5]


def test_an_episode_whose_video_is_gone_is_run_again(tmp_path: Path) -> None:
    finished = FinishedEpisodes(tmp_path, "these")
    finished.add(replace(DONE, video=str(tmp_path / "gone.mp4")))
    assert finished.read() == {}


def test_seconds_are_those_of_the_runs_that_finished_the_episodes(tmp_path: Path, monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for seed, seconds in ((4, 10.0), (5, 3.0)):  # a run each: the time between them is nobody's
        finished = FinishedEpisodes(tmp_path, "these")
        now[0] += seconds
        finished.add(replace(DONE, seed=seed))
        now[0] += 1000.0
    assert len(finished.read()) == 2
    assert finished.seconds([DONE]) == 10.0
    assert finished.seconds([DONE, replace(DONE, seed=5)]) == 13.0


def test_an_episode_that_should_have_a_video_and_has_none_is_run_again(tmp_path: Path) -> None:
    policy = Still()
    config = RolloutConfig(
        max_steps=8, batch_size=1, num_processes=1, videos_per_task=2, videos_dir=str(tmp_path), cameras=SMALL_CAMERA
    )
    known = [replace(DONE, seed=3, video="there.mp4"), DONE, replace(DONE, seed=5)]  # of the last none is wanted
    result = rollout(
        lambda: policy,
        environment_type("metaworld"),
        ["reach"],
        [3, 4, 5],
        config,
        known={RolloutEpisode("reach-v3", episode.seed): episode for episode in known},
    )
    assert policy.begun == [4]
    assert [episode.video for episode in result.episodes] == ["there.mp4", f"{tmp_path}/reach-v3-seed-4.mp4", None]
    assert Path(str(result.episodes[1].video)).is_file()


def test_known_episodes_are_not_run_and_keep_their_place() -> None:
    policy = Still()
    seen: list[int] = []
    config = RolloutConfig(max_steps=8, batch_size=1, num_processes=1)
    result = rollout(
        lambda: policy,
        environment_type("metaworld"),
        ["reach"],
        [3, 4, 5],
        config,
        lambda episode: seen.append(episode.seed),
        known={RolloutEpisode("reach-v3", 4): DONE},
    )
    assert policy.begun == seen == [3, 5]
    assert [episode.seed for episode in result.episodes] == [3, 4, 5]
    assert result.episodes[1] is DONE
