"""One LIBERO task: the same scene for the same seed, LeRobot's own observations, pictures only when asked for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptr_robot.envs.base import CameraConfig
from ptr_robot.envs.libero.environment import ENVIRONMENT_STATE_KEY, STATE_KEY, LiberoEnvironment, axis_angle
from ptr_robot.envs.libero.environment_type import Libero
from ptr_robot.envs.libero.installation import ASSETS_VARIABLE, find_assets
from ptr_robot.envs.workers import worker_processes
from ptr_robot.errors import ConfigError, DataError, ShapeError

pytestmark = pytest.mark.libero_assets

TASK, SEED, INITIAL_STATE, IMAGE_SIZE = "libero_object_1", 3, 2, 64
ACTIONS = np.random.default_rng(0).uniform(-1, 1, size=(6, 7)).astype(np.float32)


def our_observations() -> dict[str, Any]:
    """The last pictures and all states of a short episode, with light as LIBERO ships it."""
    environment = Libero().make(TASK, CameraConfig(("image", "image2"), IMAGE_SIZE, full_light=True))
    environment.reset(SEED, INITIAL_STATE)
    states = [environment.states[STATE_KEY]]
    for action in ACTIONS:
        environment.step(action)
        states.append(environment.states[STATE_KEY])
    return {"states": np.stack(states), **{name: environment.render(name) for name in ("image", "image2")}}


def lerobot_observations() -> dict[str, Any]:
    """The same episode in LeRobot's environment, through LeRobot's own processor."""
    from ptr_robot.envs.libero.installation import import_libero

    import_libero("libero.libero.envs")  # finds the assets
    from lerobot.envs.libero import LiberoEnv, _get_suite
    from lerobot.envs.utils import preprocess_observation
    from lerobot.processor.env_processor import LiberoProcessorStep

    environment = LiberoEnv(
        _get_suite("libero_object"),
        task_id=1,
        task_suite_name="libero_object",
        episode_index=INITIAL_STATE,
        obs_type="pixels_agent_pos",
        observation_width=IMAGE_SIZE,
        observation_height=IMAGE_SIZE,
    )

    def processed(raw: dict[str, Any]) -> dict[str, Any]:
        observation = preprocess_observation(raw)
        robot = observation["observation.robot_state"]
        robot = {part: {name: value[None] for name, value in values.items()} for part, values in robot.items()}
        return LiberoProcessorStep().observation({**observation, "observation.robot_state": robot})

    seen = [processed(environment.reset(seed=SEED)[0])]
    seen += [processed(environment.step(action)[0]) for action in ACTIONS]
    pictures = {
        name: np.round(seen[-1][f"observation.images.{name}"][0].permute(1, 2, 0).numpy() * 255).astype(np.uint8)
        for name in ("image", "image2")
    }
    return {"states": np.stack([each["observation.state"][0].numpy() for each in seen]), **pictures}


def test_an_episode_is_lerobots_own_to_the_pixel():
    # Each in a process of its own: a second renderer in one process fails.
    with worker_processes(1) as executor:
        ours = executor.submit(our_observations).result()
    with worker_processes(1) as executor:
        theirs = executor.submit(lerobot_observations).result()
    np.testing.assert_allclose(ours["states"], theirs["states"], atol=1e-6)
    for name in ("image", "image2"):
        assert ours[name].std() > 5.0
        np.testing.assert_array_equal(ours[name], theirs[name])


def test_the_same_seed_and_state_give_the_same_episode_whatever_came_before(cream_cheese):
    def run() -> np.ndarray:
        cream_cheese.reset(SEED, INITIAL_STATE)
        for action in ACTIONS[:3]:
            cream_cheese.step(action)
        return cream_cheese.states[ENVIRONMENT_STATE_KEY]

    first = run()
    cream_cheese.reset(8)
    for _ in range(4):
        cream_cheese.step(np.array([0, 0, -1, 0, 0, 0, 1.0]))
    np.testing.assert_array_equal(run(), first)
    assert cream_cheese.num_steps == 3
    assert not cream_cheese.is_success


def test_a_seed_alone_draws_a_layout_of_its_own_and_leaves_numpys_generator_alone(cream_cheese):
    np.random.seed(5)
    expected = np.random.random()
    np.random.seed(5)
    places = []
    for seed in (0, 1, 0):
        cream_cheese.reset(seed)
        places.append(cream_cheese.states[ENVIRONMENT_STATE_KEY][8:11])
    assert np.random.random() == expected
    np.testing.assert_array_equal(places[0], places[2])
    assert np.linalg.norm(places[0] - places[1]) > 1e-3


def test_states_have_the_sizes_that_the_type_names_and_nothing_is_rendered_unasked(cream_cheese):
    cream_cheese.reset(0, 0)
    cream_cheese.step(ACTIONS[0])
    assert {key: value.shape for key, value in cream_cheese.states.items()} == {
        STATE_KEY: (8,),
        ENVIRONMENT_STATE_KEY: (83,),
    }
    assert cream_cheese._cameras is None


def test_the_ways_that_are_left_lead_from_the_hand_to_the_object_and_on_to_its_place(cream_cheese):
    cream_cheese.reset(0, 0)
    cream_cheese.step(ACTIONS[0])
    seen = cream_cheese.states[ENVIRONMENT_STATE_KEY]
    hand, thing, place = seen[:3], seen[8:11], seen[15:18]
    np.testing.assert_allclose(hand + seen[41:44], thing, atol=1e-6)
    np.testing.assert_allclose(thing + seen[44:47], place, atol=1e-6)
    assert not seen[47:59].any()  # this task has one goal


def test_the_ways_to_all_objects_come_in_the_order_of_their_names_and_do_not_tell_the_task(cream_cheese):
    cream_cheese.reset(0, 0)
    cream_cheese.step(ACTIONS[0])
    seen = cream_cheese.states[ENVIRONMENT_STATE_KEY]
    ways = seen[59:].reshape(8, 3)
    names = sorted(cream_cheese.simulator.objects_dict)
    np.testing.assert_allclose(ways[names.index("cream_cheese_1")], seen[41:44], atol=1e-6)
    assert ways[: len(names)].any(axis=1).all()
    assert not ways[len(names) :].any()


def test_what_is_not_computed_again_in_a_step_changes_no_bit(cream_cheese, monkeypatch):
    down = np.array([0.2, 0.1, -1.0, 0.0, 0.0, 0.1, 1.0])  # onto the table, where there are contacts

    def seen() -> list[np.ndarray]:
        cream_cheese.reset(0, 0)
        poses = []
        for _ in range(25):
            cream_cheese.step(down)
            data = cream_cheese.simulator.sim.data._data
            poses.append(np.concatenate([data.qpos, data.qvel, cream_cheese.states[ENVIRONMENT_STATE_KEY]]))
        return poses

    mujoco = pytest.importorskip("mujoco")
    calls = []
    skip = mujoco.mj_forwardSkip
    monkeypatch.setattr(mujoco, "mj_forwardSkip", lambda *arguments: (calls.append(1), skip(*arguments)))
    economical = seen()
    assert len(calls) >= 25 * 25
    monkeypatch.setattr(cream_cheese._substeps, "_has_halves", False)
    np.testing.assert_array_equal(economical, seen())


def test_bad_input_is_named(cream_cheese):
    cream_cheese.reset(0, 0)
    with pytest.raises(ShapeError, match=r"LIBERO has shape \(7,\), got \(4,\)"):
        cream_cheese.step(np.zeros(4))
    with pytest.raises(ConfigError, match="not finite"):
        cream_cheese.step(np.full(7, np.nan))
    with pytest.raises(ConfigError, match="initial states 0 to 49, got 50"):
        cream_cheese.reset(0, 50)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda whole: whole[: len(whole) // 2], "ParseError"),
        (lambda whole: "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "ParseError"),
        (lambda whole: "<mujoco/>", "AttributeError"),
        (lambda whole: whole.replace('pos="', 'pos="x '), "ValueError"),
    ],
)
def test_a_damaged_asset_is_one_line_that_names_the_task_and_the_folder(tmp_path, monkeypatch, damage, words):
    cheese = Path("stable_hope_objects/cream_cheese/cream_cheese.xml")
    copied = linked_copy(find_assets(), tmp_path / "assets", cheese)
    (copied / cheese).write_text(damage((copied / cheese).read_text()))
    monkeypatch.setenv(ASSETS_VARIABLE, str(copied))
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(tmp_path / "settings"))
    with pytest.raises(DataError, match=rf"{TASK}: LIBERO could not build .* assets in {copied} \({words}: ") as caught:
        LiberoEnvironment(TASK)
    assert "\n" not in str(caught.value)


def linked_copy(folder: Path, copied: Path, own: Path) -> Path:
    """A folder of links to all that is in ``folder``, but for the file ``own``, which is a copy."""
    copied.mkdir()
    first, *rest = own.parts
    for entry in folder.iterdir():
        if entry.name != first:
            (copied / entry.name).symlink_to(entry)
        elif rest:
            linked_copy(entry, copied / first, Path(*rest))
        else:
            shutil.copy(entry, copied / first)
    return copied


def test_axis_angle_turns_vectors_as_its_quaternion_does():
    from scipy.spatial.transform import Rotation

    for quaternion in np.random.default_rng(1).normal(size=(5, 4)):
        quaternion /= np.linalg.norm(quaternion)
        expected = Rotation.from_quat(quaternion).as_matrix()
        np.testing.assert_allclose(Rotation.from_rotvec(axis_angle(quaternion)).as_matrix(), expected, atol=1e-9)
    np.testing.assert_array_equal(axis_angle(np.array([0.0, 0.0, 0.0, 1.0])), np.zeros(3))
