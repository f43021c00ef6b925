"""Rollouts depend on tasks and seeds alone, look when the policy looks, and are written whole."""

from __future__ import annotations

import json
import os
import signal
from functools import partial

import numpy as np
import pytest

from ptr_robot.envs.metaworld.expert import ExpertPolicy
from ptr_robot.errors import ConfigError, DataError, PTRError, ShapeError
from ptr_robot.eval import rollouts
from ptr_robot.eval.results import EpisodeResult, RolloutResult, read_results, write_results
from ptr_robot.eval.rollouts import RolloutConfig
from tests.envs.conftest import CAMERA, METAWORLD, SMALL_CAMERA


def rollout(factory, tasks, seeds, config=None):
    return rollouts.rollout(factory, METAWORLD, tasks, seeds, config)


class WanderingPolicy:
    """Chunks of six actions from a generator that begins anew with each episode; looks if it is told to."""

    def __init__(self, looks: bool = False) -> None:
        self.looks = looks
        self.generators = {}
        self.num_calls = []

    def reset(self, slot, episode):
        self.generators[slot] = np.random.default_rng(episode.seed)

    def act(self, observations):
        self.num_calls.append(len(observations))
        if self.looks:
            for observation in observations:
                assert observation.image(CAMERA) is observation.image(CAMERA)
        return np.stack(
            [
                self.generators[o.slot].normal(o.states["observation.state"].mean(), 1.0, size=(6, 4))
                for o in observations
            ]
        )


SHORT = RolloutConfig(execute_steps=4, max_steps=18, batch_size=2, num_processes=1, cameras=SMALL_CAMERA)


def test_experts_succeed():
    config = RolloutConfig(execute_steps=1, max_steps=150, batch_size=3, num_processes=1)
    result = rollout(ExpertPolicy, ["reach", "drawer-open"], [1, 2], config)
    assert [(e.task, e.seed) for e in result.episodes] == [
        (task, seed) for task in ("reach-v3", "drawer-open-v3") for seed in (1, 2)
    ]
    assert all(episode.is_success and episode.num_steps < 150 for episode in result.episodes)
    assert result.success.estimate == 1.0
    assert list(result.success_by_task) == ["reach-v3", "drawer-open-v3"]


def test_processes_change_nothing():
    alone = rollout(partial(WanderingPolicy, looks=True), ["reach"], range(3), SHORT)
    config = RolloutConfig(**{**vars(SHORT), "num_processes": 2})
    assert rollout(partial(WanderingPolicy, looks=True), ["reach"], range(3), config) == alone


def test_images_are_rendered_only_when_the_policy_looks(reach):
    before = reach.camera(CAMERA).num_renders
    blind = rollout(WanderingPolicy, ["reach"], [1, 2], SHORT)
    assert reach.camera(CAMERA).num_renders == before
    seeing = rollout(partial(WanderingPolicy, looks=True), ["reach"], [1, 2], SHORT)
    assert [episode.num_steps for episode in seeing.episodes] == [18, 18]
    assert [episode.num_looks for episode in seeing.episodes] == [5, 5]  # chunks begin at steps 0, 4, 8, 12, 16
    assert reach.camera(CAMERA).num_renders == before + 10
    assert [episode.num_looks for episode in blind.episodes] == [0, 0]


def test_a_policy_is_called_once_for_a_batch_and_reset_for_each_episode():
    policies = []

    def factory():
        policies.append(WanderingPolicy())
        return policies[-1]

    rollout(factory, ["reach"], [1, 2, 3], SHORT)
    (policy,) = policies
    assert policy.num_calls == [2] * 5 + [1] * 5
    assert policy.generators.keys() == {0, 1}


def test_episodes_that_end_leave_the_batch():
    num_observations = []

    class Recorder(ExpertPolicy):
        def act(self, observations):
            num_observations.append(len(observations))
            return super().act(observations)

    config = RolloutConfig(execute_steps=1, max_steps=150, batch_size=2, num_processes=1)
    result = rollout(Recorder, ["reach"], [1, 2], config)
    first, second = sorted(episode.num_steps for episode in result.episodes)
    assert num_observations == [2] * first + [1] * (second - first)


def test_videos_show_every_step_of_the_recorded_episodes(tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    config = RolloutConfig(**{**vars(SHORT), "videos_per_task": 1, "videos_dir": str(tmp_path / "videos")})
    result = rollout(WanderingPolicy, ["reach"], [7, 8], config)
    assert [episode.video is not None for episode in result.episodes] == [True, False]
    frames = imageio.mimread(result.episodes[0].video)
    assert len(frames) == 18
    assert frames[0].shape == (32, 32, 3)
    assert len(list((tmp_path / "videos").iterdir())) == 1


def test_results_are_written_whole_and_read_back(tmp_path):
    result = RolloutResult((EpisodeResult("reach-v3", 1, True, 40, 5), EpisodeResult("push-v3", 1, False, 400, 50)))
    path = tmp_path / "new" / "results.json"
    write_results(path, result)
    assert read_results(path) == result
    assert json.loads(path.read_text())["success_by_task"]["push-v3"]["estimate"] == 0.0
    assert [p.name for p in path.parent.iterdir()] == ["results.json"]
    path.write_text("{}")
    with pytest.raises(DataError, match="not a file of rollout results"):
        read_results(path)


def test_chunks_of_a_wrong_shape_are_refused():
    class Flat(WanderingPolicy):
        def act(self, observations):
            return np.zeros((len(observations), 4))

    with pytest.raises(ShapeError, match=r"shape \(1, 4\) for 1 observations"):
        rollout(Flat, ["reach"], [1], SHORT)


def missing_policy():
    raise ConfigError("nowhere holds no policy")


class KilledPolicy(WanderingPolicy):
    """Ends its process as the kernel does when memory runs out."""

    def act(self, observations):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_policy_that_cannot_be_made_says_why_in_any_number_of_processes(num_processes):
    config = RolloutConfig(**{**vars(SHORT), "num_processes": num_processes})
    with pytest.raises(ConfigError, match=r"^nowhere holds no policy$"):
        rollout(missing_policy, ["reach"], range(3), config)


def test_a_killed_process_is_one_line_with_a_remedy():
    config = RolloutConfig(**{**vars(SHORT), "num_processes": 2})
    with pytest.raises(PTRError, match=r"one of 2 simulation processes .* memory; use fewer: --num_workers=1"):
        rollout(KilledPolicy, ["reach"], range(3), config)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"execute_steps": 0}, "execute_steps=0"),
        ({"max_steps": 501}, "max_steps=501"),
        ({"videos_per_task": 1}, "needs videos_dir"),
    ],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        rollout(ExpertPolicy, ["reach"], [1], RolloutConfig(**settings))


def test_no_seed_is_refused():
    with pytest.raises(ConfigError, match="at least one"):
        rollout(ExpertPolicy, ["reach"], [])
