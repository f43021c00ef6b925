"""A stopped evaluation goes on with what was asked for, and what it writes covers all of its runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptr_robot.envs import registry
from ptr_robot.envs.base import CameraConfig, Environment, EnvironmentType, StepLimits, VectorFeature
from ptr_robot.envs.registry import register_environment
from ptr_robot.errors import ConfigError
from ptr_robot.eval.evaluation import EnvironmentFlags, EpisodeFlags, EvaluationConfig, PolicyFlags, evaluate
from ptr_robot.eval.finished_episodes import FILE

RESET_SECONDS = 10.0


class StoppedError(Exception):
    """As somebody stops an evaluation."""


class Room(Environment):
    """Has the sizes of Meta-World, two lights and three official initial states, and nothing happens in it."""

    task, instruction = "stand", "stand there"
    begun: list[tuple[int, int | None, bool]] = []  # noqa: RUF012
    now = 0.0

    def __init__(self, cameras: CameraConfig) -> None:
        self._cameras = cameras

    def reset(self, seed, initial_state=None):
        Room.begun.append((seed, initial_state, self._cameras.full_light))
        Room.now += RESET_SECONDS
        self.is_success, self.num_steps = False, 0

    def step(self, action):
        self.num_steps += 1

    @property
    def states(self):
        return {"observation.state": np.zeros(4, dtype=np.float32)}

    def render(self, camera):
        return np.zeros((32, 32, 3), dtype=np.uint8)


class RoomType(EnvironmentType):
    name, title, libraries, frames_per_second = "room", "the room", ("numpy",), 10
    states = {"observation.state": VectorFeature(4)}  # noqa: RUF012
    action = VectorFeature(4)
    cameras = {"corner2": "observation.images.corner2"}  # noqa: RUF012
    default_cameras, default_tasks = ("corner2",), ("stand",)
    study_robot, robots_folder = "room", Path("none")
    has_full_light = True

    def resolve_task(self, name):
        return (name,)

    def instruction(self, task):
        return Room.instruction

    def step_limits(self, task):
        return StepLimits(usual=4, most=4)

    def make(self, task, cameras):
        return Room(self.check_cameras(cameras))

    def num_initial_states(self, task):
        return 3


@pytest.fixture
def config(saved_run: Path, tmp_path: Path, monkeypatch) -> EvaluationConfig:
    monkeypatch.setattr(registry, "_REGISTERED", {})
    monkeypatch.setattr(Room, "begun", [])
    monkeypatch.setattr("time.monotonic", lambda: Room.now)
    register_environment(RoomType)
    return EvaluationConfig(
        policy=PolicyFlags(str(saved_run)),
        env=EnvironmentFlags(type="room", image_size=32),
        eval=EpisodeFlags(n_episodes=4, batch_size=1),
        seed=7,
        num_workers=1,
        output_dir=str(tmp_path / "out"),
    )


def stop_after(config: EvaluationConfig, num_episodes: int) -> None:
    """Evaluate until so many episodes are finished."""
    noted: list[object] = []

    def note(episode: object) -> None:
        noted.append(episode)
        if len(noted) == num_episodes:
            raise StoppedError

    with pytest.raises(StoppedError):
        evaluate(config, note)
    assert (config.output / FILE).is_file()
    Room.now += 1000.0  # until somebody goes on
    Room.begun.clear()


def written(config: EvaluationConfig) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((config.output / "eval_info.json").read_text())
    return record


def test_what_is_finished_is_not_run_again_and_its_time_counts(config) -> None:
    stop_after(config, 3)
    evaluate(config)
    assert [seed for seed, *_ in Room.begun] == [10]
    overall = written(config)["overall"]
    assert (overall["eval_s"], overall["eval_ep_s"]) == (4 * RESET_SECONDS, RESET_SECONDS)
    assert not (config.output / FILE).exists()


def test_videos_that_are_asked_for_when_it_goes_on_are_made(config) -> None:
    pytest.importorskip("imageio.v2")
    stop_after(config, 3)
    evaluate(dataclasses.replace(config, videos=2))
    assert [seed for seed, *_ in Room.begun] == [7, 8, 10]
    paths = written(config)["overall"]["video_paths"]
    assert [Path(path).name for path in paths] == ["stand-seed-7.mp4", "stand-seed-8.mp4"]
    assert all(Path(path).is_file() for path in paths)


def test_episodes_in_another_light_are_run_anew(config) -> None:
    stop_after(config, 3)
    evaluate(dataclasses.replace(config, env=dataclasses.replace(config.env, full_light=True)))
    assert [(seed, is_full) for seed, _, is_full in Room.begun] == [(seed, True) for seed in range(7, 11)]


def test_named_initial_states_are_gone_through_in_turn(config) -> None:
    stop_after(config, 3)  # from all of them: 0, 1, 2
    evaluate(dataclasses.replace(config, eval=dataclasses.replace(config.eval, initial_states=[2, 0, 1])))
    assert [(seed, state) for seed, state, _ in Room.begun] == [(7, 2), (8, 0), (9, 1), (10, 2)]
    record = written(config)
    assert record["config"]["eval"]["initial_states"] == [2, 0, 1]
    assert [episode["initial_state"] for episode in record["episodes"]] == [2, 0, 1, 2]


@pytest.mark.parametrize(
    ("states", "words"),
    [([0, 3], "names 3; stand has the states 0 to 2"), ([-1], "names -1"), ([], "names no state")],
)
def test_initial_states_that_there_are_not_are_refused_before_anything_begins(config, states, words) -> None:
    with pytest.raises(ConfigError, match=words):
        evaluate(dataclasses.replace(config, eval=dataclasses.replace(config.eval, initial_states=states)))
    assert Room.begun == []
    assert not config.output.exists()
