"""RoboCasa's adapter against the API that RoboCasa publishes; its simulator itself was never run here."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import numpy as np
import pytest

from ptr_robot.data.robots import load_robot
from ptr_robot.data.robots.slots import SLOTS
from ptr_robot.envs.base import CameraConfig
from ptr_robot.envs.registry import environment_type
from ptr_robot.envs.robocasa import tasks
from ptr_robot.envs.robocasa.environment import STATE_KEY, RoboCasaEnvironment
from ptr_robot.envs.robocasa.layout import ACTION_DIM, STATE_DIM, action_parts, flat_state
from ptr_robot.errors import ConfigError, DataError, MissingExtraError, ShapeError

from .kitchen import STATE, stand_in_modules

CAMERAS = CameraConfig(("robot0_eye_in_hand",), image_size=32)
ACTION = np.arange(1, 13, dtype=np.float32) / 24.0


@pytest.fixture
def robocasa(monkeypatch):
    """The environment type, with the stand-in in RoboCasa's place."""
    for name, module in stand_in_modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    caches = tasks.task_groups, tasks.horizons
    for cache in caches:
        cache.cache_clear()
    yield environment_type("robocasa")
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def kitchen(robocasa):
    environment = robocasa.make("CloseFridge", CAMERAS)
    environment.reset(seed=7)
    return environment


def test_the_state_is_the_base_the_hand_and_the_fingers(kitchen):
    expected = [1, 2, 3, 0, 0, 0.6, 0.8, 0.1, 0.2, 0.3, 1, 0, 0, 0, 0.02, -0.03]
    np.testing.assert_allclose(kitchen.states[STATE_KEY], expected, rtol=1e-6)
    assert kitchen.states[STATE_KEY].dtype == np.float32


def test_an_action_reaches_the_parts_that_the_wrapper_names(kitchen):
    kitchen.step(ACTION)
    parts = kitchen._kitchen.actions[-1]
    np.testing.assert_array_equal(parts["action.base_motion"], ACTION[:4])
    np.testing.assert_array_equal(parts["action.control_mode"], ACTION[4:5])
    np.testing.assert_array_equal(parts["action.end_effector_position"], ACTION[5:8])
    np.testing.assert_array_equal(parts["action.end_effector_rotation"], ACTION[8:11])
    np.testing.assert_array_equal(parts["action.gripper_close"], ACTION[11:])
    assert (kitchen.num_steps, kitchen.is_success) == (1, True)
    kitchen.reset(seed=8)
    assert (kitchen.num_steps, kitchen.is_success) == (0, False)


@pytest.mark.skipif(
    importlib.util.find_spec("lerobot.envs") is None or importlib.util.find_spec("lerobot.envs.robocasa") is None,
    reason="this LeRobot has no RoboCasa (0.6 has)",
)
def test_the_order_is_that_of_lerobots_environment():
    lerobot = importlib.import_module("lerobot.envs.robocasa")
    assert (lerobot.OBS_STATE_DIM, lerobot.ACTION_DIM) == (STATE_DIM, ACTION_DIM)
    theirs = lerobot.convert_action(ACTION)
    ours = action_parts(ACTION)
    assert set(theirs) == set(ours)
    for part, values in ours.items():
        np.testing.assert_array_equal(values, theirs[part])
    environment = lerobot.RoboCasaEnv("CloseFridge", episode_length=1)
    np.testing.assert_array_equal(environment._format_raw_obs(STATE)["agent_pos"], flat_state(STATE))


def test_the_robot_map_puts_every_part_into_its_slot():
    robot = load_robot(environment_type("robocasa").study_robot)
    first, end = SLOTS["right_eef_position"]
    assert [int(place) for place in robot.state.places[7:10]] == list(range(first, end))
    assert [int(place) for place in robot.action.places[5:8]] == list(range(first, end))
    assert int(robot.action.places[11]) == SLOTS["right_gripper"][0]
    assert int(robot.action.places[4]) == SLOTS["control_mode"][0]


def test_a_reset_draws_by_the_seed_and_words_the_instruction(kitchen, capsys):
    assert kitchen.instruction == "close it, said seed 7"
    assert kitchen._kitchen.made == {"env_name": "CloseFridge", "split": "all", "obj_registries": ("lightwheel",)}
    assert kitchen.render("robot0_eye_in_hand").shape == (32, 32, 3)
    assert kitchen.render("robot0_eye_in_hand")[0, 0, 0] == 2
    assert capsys.readouterr().out == ""
    kitchen.close()
    assert kitchen._kitchen.is_closed


def test_names_stand_for_tasks_groups_and_kitchens(robocasa):
    assert robocasa.resolve_tasks(["atomic_seen"]) == ("CloseFridge@target", "OpenCabinet@target")
    assert robocasa.resolve_tasks(["CloseFridge", "pretrain50"]) == ("CloseFridge", "CloseFridge@pretrain")
    assert robocasa.step_limits("ArrangeTea").usual == 1500
    assert robocasa.suite("CloseFridge@target") == "atomic_seen"
    assert robocasa.suite("CloseFridge") is None
    assert RoboCasaEnvironment("CloseFridge@target", CAMERAS)._kitchen.made["split"] == "target"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ClosFridge", "did you mean 'CloseFridge'"),
        ("fly", "one of its groups .atomic_seen"),
        ("CloseFridge@tarket", "did you mean 'target'"),
    ],
)
def test_an_unknown_task_or_split_gets_a_hint(robocasa, name, hint):
    with pytest.raises(ConfigError, match=hint):
        robocasa.resolve_task(name)


def test_bad_input_is_one_line(robocasa, kitchen):
    with pytest.raises(ShapeError, match=r"RoboCasa has shape \(12,\), got \(7,\)"):
        kitchen.step(np.zeros(7))
    with pytest.raises(ConfigError, match="no official initial states, got number 3"):
        kitchen.reset(seed=0, initial_state=3)
    with pytest.raises(ConfigError, match="there is no camera 'wrist'"):
        robocasa.make("CloseFridge", CameraConfig(("wrist",)))
    with pytest.raises(DataError, match=r"state.gripper_qpos of shape \(1,\), not \(2,\)"):
        flat_state({**STATE, "state.gripper_qpos": np.zeros(1)})
    with pytest.raises(DataError, match=r"could not build the kitchen .*are its assets downloaded"):
        robocasa.make("OpenCabinet", CAMERAS)
    with pytest.raises(ConfigError, match=r"reset\(\) must come before"):
        _ = robocasa.make("CloseFridge", CAMERAS).states
    with pytest.raises(ConfigError, match="no scripted operators"):
        _ = robocasa.scripted


@pytest.mark.skipif(importlib.util.find_spec("robocasa") is not None, reason="RoboCasa is installed")
def test_a_missing_package_is_named_in_one_line():
    with pytest.raises(MissingExtraError, match=r"RoboCasa could not be imported.*github.com/robocasa") as caught:
        environment_type("robocasa").resolve_task("CloseFridge")
    assert "\n" not in str(caught.value)
