"""Slots and robots: built-in maps against the published layout, one's own maps, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.robots import builtin_robots, load_robot, robot_for_type
from ptr_robot.data.robots.slots import IGNORED, SLOTS, SlotEntry, SlotMap
from ptr_robot.errors import ConfigError

RANGES = {  # robot: the unified dimensions of its state and of its action, in the robot's own order
    "libero": ([(0, 6), (44, 46)], [(0, 6), (18, 19)]),
    # LeRobot's order: the base's position and quaternion, the hand's, the fingers.
    "robocasa": ([(70, 73), (76, 80), (0, 3), (46, 50), (44, 46)], [(70, 75), (0, 6), (18, 19)]),
    "robocasa_hand_first": ([(0, 3), (46, 50), (70, 73), (76, 80), (44, 46)], [(0, 6), (18, 19), (70, 75)]),
    "robocasa_axis_angle": ([(0, 6), (44, 46), (70, 76)], [(0, 6), (18, 19), (70, 75)]),
    "metaworld": ([(0, 3), (18, 19)], [(0, 3), (18, 19)]),
    "unitree_g1": ([(57, 64), (50, 57), (32, 38), (20, 26)],) * 2,
    "adam_u": ([(57, 64), (50, 57), (32, 38), (20, 26), (64, 69)],) * 2,
    "fr3": ([(50, 57), (20, 26)],) * 2,
    "so_arm": ([(50, 55), (18, 19)],) * 2,
    "bi_so_arm": ([(57, 62), (19, 20), (50, 55), (18, 19)],) * 2,
    "koch": ([(50, 55), (18, 19)],) * 2,
    "aloha": ([(57, 63), (19, 20), (50, 56), (18, 19)],) * 2,
    "xarm": ([(0, 3), (18, 19)],) * 2,
    "franka": ([(50, 57), (18, 19)],) * 2,
    "pusht": ([(0, 2)],) * 2,
    "piper": ([(50, 56), (18, 19)],) * 2,
}


def test_every_builtin_robot_is_checked_here():
    assert set(builtin_robots()) == set(RANGES)


@pytest.mark.parametrize("name", RANGES)
def test_builtin_maps_follow_the_unified_layout(name):
    robot = load_robot(name)
    for slots, ranges in zip((robot.state, robot.action), RANGES[name], strict=True):
        assert slots.places.tolist() == [place for first, end in ranges for place in range(first, end)]


@pytest.mark.parametrize(
    ("robot_type", "name"),
    [
        ("so100_follower", "so_arm"),
        ("so101", "so_arm"),
        ("koch_follower", "koch"),
        ("aloha", "aloha"),
        ("xarm", "xarm"),
        ("Franka", "franka"),
        ("pusht", "pusht"),
        ("piper", "piper"),
    ],
)
def test_lerobots_names_of_robots_find_their_maps(robot_type, name):
    assert robot_for_type(robot_type, "somewhere").name == name


def test_active_dimensions_of_the_papers_robots():
    counts = {name: load_robot(name).action.mask.sum() for name in ("unitree_g1", "adam_u", "fr3", "robocasa")}
    assert counts == {"unitree_g1": 26, "adam_u": 31, "fr3": 13, "robocasa": 12}


def test_robocasa_has_the_sizes_of_lerobots_environment():
    robot = robot_for_type("PandaOmron", "robocasa")
    assert (robot.state.size, robot.action.size) == (16, 12)
    with pytest.raises(ConfigError, match="has 14 dimensions and the robot's map 16"):
        robot.state.check_size("observation.state", 14)


def test_g1_map_follows_the_names_in_the_real_dataset(g1):
    index = open_index(g1, episodes=[0])
    robot = robot_for_type(index.robot_type, "g1")
    for key, slots in (("observation.state", robot.state), ("action", robot.action)):
        for name, place in zip(index.feature(key).names, slots.places, strict=True):
            side = "left" if "Left" in name else "right"
            first, end = SLOTS[f"{side}_hand" if "Hand" in name else f"{side}_arm_joints"]
            assert first <= place < end, name


@st.composite
def slot_maps(draw):
    names = draw(st.lists(st.sampled_from(sorted(SLOTS)), unique=True, min_size=1, max_size=6))
    entries, taken = [], set()
    for name in names:
        first, end = SLOTS[name]
        size = draw(st.integers(1, end - first))
        if not taken & set(range(first, first + size)):
            taken |= set(range(first, first + size))
            entries.append(SlotEntry(name, size))
        if draw(st.booleans()):
            entries.append(SlotEntry(IGNORED, draw(st.integers(1, 3))))
    return SlotMap(tuple(entries))


@given(slot_maps(), st.integers(0, 2**32 - 1))
def test_unified_and_back(slots, seed):
    values = np.random.default_rng(seed).normal(size=(3, slots.size)).astype("f4")
    unified = slots.to_unified(values)
    assert unified.shape == (3, 200)
    assert not unified[:, ~slots.mask].any()
    own = 0
    for entry in slots.entries:
        for step in range(entry.size):
            if entry.slot != IGNORED:
                np.testing.assert_array_equal(unified[:, SLOTS[entry.slot][0] + step], values[:, own])
            own += 1
    kept = slots.places >= 0
    np.testing.assert_array_equal(slots.from_unified(unified)[:, kept], values[:, kept])
    assert not slots.from_unified(unified)[:, ~kept].any()


def test_own_robot_in_a_few_lines(tmp_path):
    path = tmp_path / "so100.yaml"
    path.write_text(
        "state: &joints\n  - {slot: right_arm_joints, size: 5}\n  - {slot: right_gripper, size: 1}\naction: *joints\n"
    )
    robot = load_robot(str(path))
    assert robot.name == "so100"
    assert robot.action.places.tolist() == [50, 51, 52, 53, 54, 18]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("state: [{slot: right_arm_joint, size: 7}]", "did you mean 'right_arm_joints'"),
        ("state: [{slot: right_arm_joints, size: 8}]", r"given 8 dimensions and holds 7 \(50 to 57\)"),
        ("state: [{slot: head, size: 0}]", "size must be at least 1"),
        ("state: [{slot: base_pose, size: 1}]", "did you mean 'base_position'"),
        ("state: [{slot: base_motion, size: 4}, {slot: base_position, size: 3}]", "both fill dimension 70"),
        ("state: [{slot: head, size: 2, normalizer: q99}]", "did you mean 'normaliser'"),
        ("state: [{slot: head, size: 2, normaliser: q98}]", "did you mean 'q99'"),
        ("state: [{slot: head}]", "must read like"),
        ("state: 3", "state must be a list"),
        ("stat: []", "did you mean 'state'"),
        ("- 1", "expected the fields state and action"),
        ("state: [", "not valid YAML"),
    ],
)
def test_mistakes_in_ones_own_robot(tmp_path, text, line):
    path = tmp_path / "mine.yaml"
    path.write_text(text + ("\naction: [{slot: head, size: 2}]" if text.startswith("state: [{") else ""))
    with pytest.raises(ConfigError, match=line) as caught:
        load_robot(str(path))
    assert "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_robots_get_a_hint():
    with pytest.raises(ConfigError, match="did you mean 'unitree_g1'"):
        load_robot("unitre_g1")
    with pytest.raises(ConfigError, match="no such file"):
        load_robot("absent.yaml")
    with pytest.raises(
        ConfigError, match=r"robot_type None has no map; choose one of: .*, xarm\. Set robot to one of them"
    ):
        robot_for_type(None, "owner/name")


def test_places_are_computed_once_and_cannot_be_changed():
    slots = SlotMap((SlotEntry("right_gripper", 1), SlotEntry("right_hand", 2)))
    assert slots.places is slots.places
    with pytest.raises(ValueError, match="read-only"):
        slots.places[0] = 3
    slots.mask[:] = True
    assert np.flatnonzero(slots.mask).tolist() == [18, 20, 21]
    assert slots == SlotMap(slots.entries)
    assert hash(slots) == hash(SlotMap(slots.entries))
