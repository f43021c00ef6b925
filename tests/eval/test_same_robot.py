"""A policy acts where its actions mean what the environment's do; equal sizes are not enough."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ptr_robot.data.robots import load_robot
from ptr_robot.envs.base import EnvironmentType
from ptr_robot.envs.libero.environment_type import Libero
from ptr_robot.envs.metaworld.environment_type import MetaWorld
from ptr_robot.envs.robocasa.environment_type import RoboCasa
from ptr_robot.errors import ConfigError
from ptr_robot.eval.saved_policy import fed_sources, load_rollout_policy, tasks_by_source
from ptr_robot.policy.vla.policy import build_policy
from ptr_robot.train.sources import SourceRecord
from ptr_robot.train.trained import TrainedPolicy
from tests.envs.conftest import METAWORLD
from tests.policy.conftest import small_config
from tests.study.conftest import identity_map, make_trained, save_run

JOINTS = """
state: [{slot: right_eef_position, size: 3}, {slot: right_gripper, size: 1}]
action: [{slot: right_arm_joints, size: 3}, {slot: right_gripper, size: 1}]
"""


def source_of(robot_name: str) -> SourceRecord:
    robot = load_robot(robot_name)
    state, action = identity_map(robot.state), identity_map(robot.action)
    return dataclasses.replace(make_trained().sources[0], robot=robot.name, state_map=state, action_map=action)


@pytest.fixture
def joints(tmp_path: Path) -> SourceRecord:
    """Meta-World's sizes, and the joints of another arm."""
    (tmp_path / "joints.yaml").write_text(JOINTS)
    return source_of(str(tmp_path / "joints.yaml"))


def maps_of(kind: EnvironmentType) -> list[str]:
    return [str(path) for path in kind.robots_folder.glob(f"{kind.name}*.yaml")]


@pytest.mark.parametrize("robot", [*maps_of(MetaWorld()), "metaworld", "xarm"])
def test_every_map_of_meta_world_is_fed(robot) -> None:
    assert fed_sources("run", [source_of(robot)], METAWORLD) == [0]


@pytest.mark.parametrize("robot", [*maps_of(Libero()), "libero"])
def test_every_map_of_libero_is_fed(robot) -> None:
    assert fed_sources("run", [source_of(robot)], Libero()) == [0]


def test_the_other_order_of_robocasas_numbers_is_refused() -> None:
    assert fed_sources("run", [source_of("robocasa")], RoboCasa()) == [0]
    with pytest.raises(
        ConfigError, match=r"run was trained for robocasa_hand_first, whose actions are 3 right_eef_pos"
    ):
        fed_sources("run", [source_of("robocasa_hand_first")], RoboCasa())


def test_joints_are_no_pose_though_their_sizes_are_equal(joints) -> None:
    with pytest.raises(
        ConfigError,
        match=r"run was trained for joints, whose actions are 3 right_arm_joints \+ 1 right_gripper; Meta-World takes "
        r".*3 right_eef_position \+ 1 right_gripper.*: evaluate .*--policy.allow_other_robot=true",
    ) as caught:
        tasks_by_source("run", [joints], METAWORLD, ["reach-v3"])
    assert "\n" not in str(caught.value)
    assert tasks_by_source("run", [joints], METAWORLD, ["reach-v3"], allow_other_robot=True) == {0: ["reach-v3"]}


def test_a_policy_of_two_robots_is_met_with_the_maps_of_the_right_one(joints) -> None:
    assert fed_sources("run", [joints, source_of("metaworld")], METAWORLD) == [1]


def test_an_environment_without_a_map_takes_what_has_its_sizes(joints, tmp_path: Path) -> None:
    class Unmapped(MetaWorld):
        name, robots_folder = "unmapped", tmp_path / "none"

    assert fed_sources("run", [joints], Unmapped()) == [0]


def test_a_source_that_is_named_is_not_compared(joints, tmp_path: Path) -> None:
    """As studies name it, whose data are the environment's own, whatever their map."""
    policy = TrainedPolicy(policy=build_policy(small_config(), seed=0).eval(), belief=None, sources=(joints,))
    run = save_run(policy, tmp_path / "run")
    assert load_rollout_policy(str(run), 0, METAWORLD, 0)
    with pytest.raises(ConfigError, match="was trained for joints"):
        load_rollout_policy(str(run), 0, METAWORLD)
