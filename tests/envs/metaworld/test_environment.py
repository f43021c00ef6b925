"""A layout depends on its seed alone; images are rendered when asked for, upright, and show the goal."""

from __future__ import annotations

import ctypes.util

import numpy as np
import pytest

from ptr_robot.envs import offscreen
from ptr_robot.envs.base import CameraConfig, clip_action
from ptr_robot.envs.metaworld.environment import MetaWorldEnvironment
from ptr_robot.envs.metaworld.expert import make_policy
from ptr_robot.envs.metaworld.rendering import Camera
from ptr_robot.envs.metaworld.tasks import instructions, task_names
from ptr_robot.errors import ConfigError, MissingExtraError, ShapeError
from tests.envs.conftest import CAMERA, METAWORLD, SMALL_CAMERA


def run(environment: MetaWorldEnvironment, seed: int, num_steps: int = 30) -> np.ndarray:
    expert = make_policy(environment.task)
    environment.reset(seed)
    states = [environment.environment_state.copy()]
    for _ in range(num_steps):
        environment.step(expert.get_action(states[-1].copy()))
        states.append(environment.environment_state.copy())
    return np.stack(states)


def test_a_seed_gives_the_same_episode_whatever_came_before(pick_place):
    first = run(MetaWorldEnvironment("pick-place-v3"), seed=4)
    run(pick_place, seed=9)
    np.testing.assert_array_equal(run(pick_place, seed=4), first)
    assert np.abs(run(pick_place, seed=5)[0] - first[0]).max() > 0.01


def test_the_goal_is_in_the_state_and_marked_in_the_first_image(reach):
    for seed in (1, 2):
        reach.reset(seed)
        goal = reach.environment_state[-3:]
        assert np.linalg.norm(goal) > 0.1
        np.testing.assert_allclose(reach._simulator.data.site("goal").xpos, goal)


def test_the_state_is_lerobots(reach):
    reach.reset(0)
    assert {key: state.shape for key, state in reach.states.items()} == {
        key: (feature.size,) for key, feature in METAWORLD.states.items()
    }
    np.testing.assert_array_equal(reach.states["observation.state"], reach.environment_state[:4].astype(np.float32))


def test_official_initial_states_are_refused(reach):
    with pytest.raises(ConfigError, match="Meta-World has no official initial states"):
        reach.reset(0, initial_state=3)


def test_nothing_is_rendered_until_somebody_looks(reach):
    before = reach.camera(CAMERA).num_renders
    run(reach, seed=0, num_steps=5)
    assert reach.camera(CAMERA).num_renders == before
    image = reach.render(CAMERA)
    assert image.shape == (32, 32, 3)
    assert image.dtype == np.uint8
    assert reach.camera(CAMERA).num_renders == before + 1


def test_a_shared_camera_sees_what_an_own_one_sees(reach):
    other = MetaWorldEnvironment("reach", SMALL_CAMERA)
    other.reset(3)
    assert other.camera(CAMERA) is reach.camera(CAMERA)
    own = Camera(other._simulator.model, CAMERA, SMALL_CAMERA.image_size)
    np.testing.assert_array_equal(other.render(CAMERA), own.render(other._simulator.data))
    own.close()


def test_the_picture_is_upright(reach):
    """The grey of the far wall is above, the brown of the table below."""
    reach.reset(0)
    image = reach.render(CAMERA).astype(int)
    colourfulness = image.max(axis=2) - image.min(axis=2)  # (H, W)
    assert colourfulness[:3, 16:].mean() < 10 < colourfulness[-8:, 16:].mean()


def test_actions_are_clipped_and_checked(reach):
    np.testing.assert_array_equal(clip_action(np.array([2.0, -3.0, 0.25, 1.0]), 4, "it"), np.float32([1, -1, 0.25, 1]))
    with pytest.raises(ShapeError, match=r"\(4,\), got \(3,\)"):
        reach.step(np.zeros(3))
    with pytest.raises(ConfigError, match="not finite"):
        reach.step(np.array([0.0, np.nan, 0.0, 0.0]))


def test_names_of_tasks():
    assert len(task_names()) == 50
    assert METAWORLD.resolve_tasks(["reach", "door-open-v3"]) == ("reach-v3", "door-open-v3")
    assert instructions()["reach-v3"] == "Reach a goal position"
    with pytest.raises(ConfigError, match="did you mean 'pick-place-v3'"):
        METAWORLD.resolve_tasks(["pick-plase"])
    with pytest.raises(ConfigError, match="named twice"):
        METAWORLD.resolve_tasks(["reach", "reach-v3"])


def test_names_of_cameras():
    with pytest.raises(ConfigError, match="did you mean 'corner2'"):
        METAWORLD.make("reach", CameraConfig(("corner22",)))
    with pytest.raises(ConfigError, match="image_size=4"):
        CameraConfig((CAMERA,), image_size=4)


@pytest.mark.parametrize(("backend", "package"), [("egl", "libegl1"), ("osmesa", "libosmesa6")])
def test_a_missing_renderer_names_its_package(monkeypatch, backend, package):
    monkeypatch.setenv("MUJOCO_GL", backend)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    with pytest.raises(MissingExtraError, match=f"apt-get install {package}") as caught:
        offscreen.check_backend()
    assert "\n" not in str(caught.value)
