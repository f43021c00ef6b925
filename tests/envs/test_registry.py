"""Environments are found by name, one's own too; what every type must say of itself is there."""

from __future__ import annotations

import pickle
import re
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

from ptr_robot.data.robots import load_robot
from ptr_robot.envs import registry
from ptr_robot.envs.base import CameraConfig, Environment, EnvironmentType, StepLimits, VectorFeature
from ptr_robot.envs.registry import environment_names, environment_type, register_environment
from ptr_robot.errors import ConfigError, MissingExtraError
from ptr_robot.eval.rollout_policy import RolloutEpisode
from ptr_robot.eval.rollouts import RolloutConfig, rollout


class Line(Environment):
    """A point on a line that has to get to its end."""

    num_made = 0
    num_open = 0

    def __init__(self, task: str) -> None:
        self.task, self.instruction = task, f"do {task}"
        Line.num_made += 1
        Line.num_open += 1
        assert Line.num_open == 1

    def reset(self, seed, initial_state=None):
        self.start = self.position = 0.1 * (seed if initial_state is None else initial_state)
        self.is_success, self.num_steps = False, 0

    def step(self, action):
        self.position += float(action[0])
        self.num_steps += 1
        self.is_success = self.position >= 1.0

    @property
    def states(self):
        return {"observation.state": np.float32([self.position, self.start])}

    def render(self, camera):
        return np.zeros((16, 16, 3), dtype=np.uint8)

    def close(self):
        Line.num_open -= 1


class LineType(EnvironmentType):
    """One at a time in a process, with three official initial states."""

    name, title, libraries, frames_per_second = "line", "the line", ("numpy",), 10
    states = {"observation.state": VectorFeature(2)}  # noqa: RUF012
    action = VectorFeature(1)
    cameras = {"side": "observation.image"}  # noqa: RUF012
    default_cameras, default_tasks = ("side",), ("all",)
    max_per_process = 1

    def resolve_task(self, name):
        return ("walk/0", "run/0") if name == "all" else (name,)

    def instruction(self, task):
        return f"do {task}"

    def step_limits(self, task):
        return StepLimits(usual=12, most=20)

    def make(self, task, cameras: CameraConfig):
        return Line(task)

    def num_initial_states(self, task):
        return 3


class Walker:
    seen: list[tuple[RolloutEpisode, float]] = []  # noqa: RUF012

    def reset(self, slot, episode):
        self.episode = episode

    def act(self, observations):
        Walker.seen += [(self.episode, float(o.states["observation.state"][-1])) for o in observations]
        return np.full((len(observations), 1, 1), 0.1)


@pytest.fixture
def line(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    monkeypatch.setattr(Line, "num_open", 0)
    return register_environment(LineType)


@pytest.mark.parametrize("name", environment_names())
def test_every_type_says_what_is_asked_of_it(name):
    kind = environment_type(name)
    assert kind.name == name
    assert type(pickle.loads(pickle.dumps(kind))) is type(kind)
    assert set(kind.default_cameras) <= set(kind.cameras)
    assert all(kind.camera_of(key) == camera for camera, key in kind.cameras.items())
    robot = load_robot(kind.robot_file(None))
    assert (robot.state.size, robot.action.size) == (kind.states[kind.study_state].size, kind.action.size)
    if type(kind).scripted is not EnvironmentType.scripted:
        assert kind.scripted.arm.action_size == kind.action.size
    try:
        tasks = kind.resolve_tasks(kind.default_tasks)
    except MissingExtraError as missing:
        pytest.skip(str(missing))
    for task in tasks:
        assert kind.instruction(task)
        assert 1 <= kind.step_limits(task).usual <= kind.step_limits(task).most


def test_unknown_names_get_a_hint():
    with pytest.raises(ConfigError, match="no environment 'metawrld'; did you mean 'metaworld'"):
        environment_type("metawrld")


def test_ones_own_is_registered_once(line):
    assert isinstance(environment_type("line"), LineType)
    assert register_environment(line) is line
    taken = type("Other", (LineType,), {"name": "metaworld"})
    with pytest.raises(ConfigError, match="there is an environment 'metaworld' already"):
        register_environment(taken)


def test_a_package_brings_its_environments_by_an_entry_point(monkeypatch):
    points = [EntryPoint("line", f"{__name__}:LineType", registry.ENTRY_POINTS), EntryPoint("gone", "no_such:X", "")]
    monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: points)
    assert environment_type("line").title == "the line"
    with pytest.raises(ConfigError, match=r"'gone' .* cannot be imported"):
        environment_type("gone")


def test_rollouts_go_through_the_official_initial_states_one_environment_at_a_time(line):
    Walker.seen.clear()
    config = RolloutConfig(execute_steps=1, batch_size=8, num_processes=1)
    result = rollout(Walker, LineType(), ["all"], range(50, 54), config)
    assert [(e.task, e.seed, e.initial_state) for e in result.episodes] == [
        (task, 50 + number, number % 3) for task in ("walk/0", "run/0") for number in range(4)
    ]
    assert all(start == pytest.approx(0.1 * episode.initial_state) for episode, start in Walker.seen)
    assert result.success.estimate == 1.0
    assert Line.num_open == 0  # and never more than one, as it asserts itself


@pytest.mark.parametrize(("max_steps", "taken"), [(None, 12), (4, 4), (21, None)])
def test_limits_are_the_environments(line, max_steps, taken):
    class Standing(Walker):
        def act(self, observations):
            return 0 * super().act(observations)

    config = RolloutConfig(max_steps=max_steps, num_processes=1)
    if taken is None:
        with pytest.raises(ConfigError, match="max_steps=21 is out of range; the line allows 1 to 20"):
            rollout(Standing, LineType(), ["walk/0"], [0], config)
    else:
        assert [e.num_steps for e in rollout(Standing, LineType(), ["walk/0"], [0], config).episodes] == [taken]


def test_what_has_no_operators_says_so():
    with pytest.raises(ConfigError, match="the line has no scripted operators"):
        _ = LineType().scripted


def test_the_code_of_the_guide_runs(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    guide = Path(__file__).parents[2] / "docs" / "add_an_environment.md"
    (code,) = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    exec(code, {"__name__": "guide"})
    kind = environment_type("line")
    result = rollout(Walker, kind, kind.default_tasks, range(3), RolloutConfig(execute_steps=1, num_processes=1))
    assert [(e.seed, e.is_success, e.initial_state) for e in result.episodes] == [(s, False, None) for s in range(3)]
    with pytest.raises(ConfigError, match="did you mean 'right'"):
        kind.resolve_tasks(["rigt"])
