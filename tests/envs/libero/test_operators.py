"""The scripted operators: they do their task, their faults are executed, and what they plan fits the scene."""

from __future__ import annotations

import numpy as np
import pytest

from ptr_robot.envs.libero.cavity import Cavity
from ptr_robot.envs.libero.environment import LiberoEnvironment
from ptr_robot.envs.libero.environment_type import Libero
from ptr_robot.envs.libero.expert import LiberoExpert
from ptr_robot.envs.libero.grasps import MAX_WIDTH_METRES, rank_grasps
from ptr_robot.envs.libero.motion import about_vertical, clear_height, rotation_vector, travel, turned_down
from ptr_robot.envs.libero.scene import Boxes, Scene
from ptr_robot.envs.operators import OPERATORS
from ptr_robot.envs.performance import DemonstrationSeeds, Pace, perform
from ptr_robot.envs.scripted import Workplace

ONE_BOX = Boxes(np.array([[0.0, 0.0, 0.5]]), about_vertical(np.pi / 4)[None], np.array([[0.1, 0.02, 0.5]]))


@pytest.mark.libero_assets
def test_the_script_does_its_task_from_an_official_state(cream_cheese):
    cream_cheese.reset(0, 0)
    expert = LiberoExpert(cream_cheese)
    while not cream_cheese.is_success and cream_cheese.num_steps < 150:
        cream_cheese.step(expert.act(expert.hand))
    assert cream_cheese.is_success


@pytest.mark.slow
@pytest.mark.libero_assets
@pytest.mark.parametrize(
    ("task", "state"),
    [
        ("libero_10_3", 2),  # a bowl that leans on the front panel of its drawer does not let it shut
        ("libero_goal_3", 1),  # the drawer stands open over the bowl that goes into it
        ("libero_goal_3", 2),  # so close over it that no hand could take it: it is put aside first
    ],
)
def test_the_script_fills_drawers(task, state):
    assert _does_its_task(task, state, max_steps=300)


@pytest.mark.slow
@pytest.mark.libero_assets
@pytest.mark.parametrize(
    ("task", "state", "max_steps"),
    [
        ("libero_spatial_4", 7, 150),  # a hand that drifts while it closes slips off the bowl in the drawer
        ("libero_spatial_8", 3, 150),  # the bowl's far rim is out of reach
        ("libero_10_9", 0, 300),  # under the microwave's ceiling there is no room for a hand above the mug
        ("libero_10_8", 1, 300),  # a moka pot is too wide for the hand but for the knob on its lid
        ("libero_10_4", 2, 300),  # fingers that have not left the first mug take it along to the second
    ],
)
def test_the_script_gets_hold_and_lets_go(task, state, max_steps):
    assert _does_its_task(task, state, max_steps)


def _does_its_task(task: str, state: int, max_steps: int) -> bool:
    environment = LiberoEnvironment(task)
    environment.reset(state, state)
    expert = LiberoExpert(environment)
    while not environment.is_success and environment.num_steps < max_steps:
        environment.step(expert.act(expert.hand))
    return environment.is_success


@pytest.mark.libero_assets
def test_an_operator_who_misses_and_gives_up_leaves_the_task_undone(cream_cheese):
    workplace = Workplace.of(Libero(), cream_cheese)
    seeds = DemonstrationSeeds(layout=3, operator=1)
    demonstration = perform(workplace, OPERATORS["quitting"], seeds, Pace(speed=1.0), expected=100)
    assert not demonstration.is_success
    assert [fault.kind for fault in demonstration.faults] == ["failed_attempt"]
    assert demonstration.actions.shape[1] == 7


@pytest.mark.libero_assets
def test_the_best_grasp_is_around_the_object_and_a_failed_one_comes_late(cream_cheese):
    cream_cheese.reset(0, 0)
    scene = Scene(cream_cheese)
    boxes = scene.boxes("cream_cheese_1")
    best = rank_grasps(scene, "cream_cheese_1")[0]
    assert np.linalg.norm(best.point[:2] - boxes.middle[:2]) < 0.01
    closing = about_vertical(best.yaw) @ np.array([0.0, 1.0, 0.0])
    assert np.ptp(boxes.corners.reshape(-1, 3) @ closing) < MAX_WIDTH_METRES
    second = rank_grasps(scene, "cream_cheese_1", failed=[best])[0]
    assert not second.is_like(best)


@pytest.mark.libero_assets
def test_a_microwave_is_a_cavity_and_a_mug_with_its_handle_outwards_goes_into_it():
    environment = LiberoEnvironment("libero_10_9")
    environment.reset(0, 0)
    scene = Scene(environment)
    cavity = Cavity.find(scene, "microwave_1_heating_region")
    assert cavity is not None
    frame, mug = scene.boxes("microwave_1"), scene.boxes("white_yellow_mug_1")
    assert frame.low[2] < cavity.floor < scene.position("microwave_1_heating_region")[2] < frame.high[2]
    assert cavity.inward @ (cavity.middle - mug.middle) > 0.0
    assert cavity.suits(mug)
    turned_away = Cavity(-cavity.inward, cavity.middle, cavity.floor, cavity.front)
    assert not turned_away.suits(mug)
    assert scene.is_door("microwave_1")


@pytest.mark.libero_assets
def test_a_basket_is_no_cavity_and_a_box_has_no_handle(cream_cheese):
    cream_cheese.reset(0, 0)
    scene = Scene(cream_cheese)
    assert Cavity.find(scene, "basket_1_contain_region") is None
    for angle in np.linspace(0.0, 2.0 * np.pi, 8, endpoint=False):
        anywhere = Cavity(about_vertical(angle)[:, 0], np.zeros(3), 0.0, 0.0)
        assert not anywhere.suits(scene.boxes("cream_cheese_1"))


@pytest.mark.libero_assets
def test_an_object_at_the_end_of_reach_is_taken_on_its_near_side(cream_cheese, monkeypatch):
    cream_cheese.reset(0, 0)
    scene = Scene(cream_cheese)
    basket = scene.boxes("basket_1").middle

    def mean_distance(base):
        monkeypatch.setattr(Scene, "robot_base", property(lambda _: base))
        return np.mean([np.linalg.norm((g.point - base)[:2]) for g in rank_grasps(scene, "basket_1")[:3]])

    near = basket - np.array([0.0, 0.3, 0.0])
    far = basket - np.array([0.0, 0.8, 0.0])
    assert mean_distance(far) - 0.8 < mean_distance(near) - 0.3 - 0.01


def test_points_are_inside_a_turned_box_or_not():
    along = np.array([np.cos(np.pi / 4), np.sin(np.pi / 4), 0.0])
    across = np.array([-along[1], along[0], 0.0])
    points = np.stack([0.09 * along, 0.11 * along, 0.09 * across]) + np.array([0.0, 0.0, 0.5])
    assert ONE_BOX.is_inside(points, margin=0.0).tolist() == [True, False, False]
    assert ONE_BOX.is_inside(points, margin=0.02).tolist() == [True, True, False]
    assert ONE_BOX.high[2] == pytest.approx(1.0)


def test_a_way_goes_over_what_stands_between():
    start, end = np.array([-0.5, 0.0, 0.2]), np.array([0.5, 0.0, 0.2])
    height = clear_height(ONE_BOX, start, end)
    assert height > 1.0
    assert clear_height(ONE_BOX, start, start) == -np.inf
    hand, heights = start, []
    for _ in range(400):
        step = travel(hand, end, height) - hand
        hand = hand + step * min(1.0, 0.01 / max(np.linalg.norm(step), 1e-9))
        heights.append((abs(hand[0]), hand[2]))
    assert np.linalg.norm(hand - end) < 0.01
    assert min(z for x, z in heights if x < 0.1) > 1.0


def test_rotation_vectors_are_the_shorter_way_round():
    np.testing.assert_allclose(rotation_vector(about_vertical(0.3)), [0.0, 0.0, 0.3], atol=1e-12)
    np.testing.assert_allclose(rotation_vector(about_vertical(-3.0)), [0.0, 0.0, -3.0], atol=1e-9)
    turned = turned_down(0.5)
    np.testing.assert_allclose(turned[:, 2], [0.0, 0.0, -1.0], atol=1e-12)
    np.testing.assert_allclose(turned[:, 0], [-np.sin(0.5), np.cos(0.5), 0.0], atol=1e-12)
