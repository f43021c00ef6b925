"""``ptr info`` on a terminal and for programs."""

from __future__ import annotations

import json

import pytest

from ptr_robot.cli.main import run
from ptr_robot.data.ground_truth import EpisodeTruth, Fault, write_ground_truth
from ptr_robot.errors import ConfigError, DataError

from ..data.v21_writer import TASKS, add_rewards, video_path, write_v21


@pytest.fixture
def dataset(tmp_path):
    root = write_v21(tmp_path / "cubes")
    write_ground_truth(root, [EpisodeTruth(n, (Fault("action_noise", 0, 9),) if n == 2 else ()) for n in range(4)])
    video_path(root, 3).unlink()
    return root


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_page_fits_the_terminal_and_holds_the_facts(dataset, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(["info", str(dataset)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= width for line in lines if line != str(dataset))
    text = " ".join(" ".join(lines).split())
    for fact in ("LeRobot v2.1", "111 at 10 fps, 11 s", "observation.state", *TASKS, "action noise 1"):
        assert fact in text
    assert "action 4: right_eef_position 3, right_gripper 1" in text
    assert "64 of 111 chunks (57.7%)" in text
    assert "episode 3" in text.partition("Cannot be used with pictures")[2]


def test_what_would_steer_the_terminal_is_shown_escaped(dataset, capsys):
    path = dataset / "meta/tasks.jsonl"
    tasks = [{"task_index": 0, "task": "push\x1b[31m\u202e\nit für [b]"}, {"task_index": 1, "task": TASKS[1]}]
    path.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    assert run(["info", str(dataset)]) == 0
    text = capsys.readouterr().out
    assert r"push\x1b[31m\u202e\nit für [b]" in text
    assert not {"\x1b", "\u202e"} & set(text)


def test_a_robot_without_a_map_gets_the_remedy(tmp_path, capsys):
    write_v21(tmp_path / "own", robot_type="homemade")
    run(["info", str(tmp_path / "own")])
    assert "unknown robot: write a slot map, see docs/add_a_robot.md" in " ".join(capsys.readouterr().out.split())


def test_the_tables_show_when_every_video_is_missing(dataset, capsys):
    for number in range(3):
        video_path(dataset, number).unlink()
    assert run(["info", str(dataset)]) == 0
    assert capsys.readouterr().out.count("no such file") == 4


MAP = "{0}: [{{slot: right_eef_position, size: {1}}}, {{slot: right_gripper, size: 1}}]\n"


def test_ones_own_robot_can_be_checked(tmp_path, capsys):
    root = write_v21(tmp_path / "own", robot_type="homemade")
    robot = tmp_path / "homemade.yaml"
    robot.write_text(MAP.format("state", 3) + MAP.format("action", 2))
    run(["info", str(root), f"--robot={robot}"])
    text = " ".join(capsys.readouterr().out.split())
    assert "homemade" in text
    assert "observation.state 4: right_eef_position 3, right_gripper 1" in text
    assert "action the map has 3 dimensions, the dataset 4: write a slot map" in text
    run(["info", str(root), f"--robot={robot}", "--state_key=action", "--action_key=observation.stat"])
    text = " ".join(capsys.readouterr().out.split())
    assert "action 4: right_eef_position 3, right_gripper 1" in text
    assert "there is no such vector; did you mean 'observation.state'?" in text
    with pytest.raises(ConfigError, match="did you mean 'unitree_g1'"):
        run(["info", str(root), "--robot=unitree_g2"])


def test_a_value_that_training_does_not_need_is_odd_and_no_more(tmp_path, capsys):
    root = write_v21(tmp_path / "rewards")
    add_rewards(root, float("nan"))
    assert run(["info", str(root), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["num_episodes"], content["unusable"]) == (4, {})
    (odd,) = (oddity for oddity in content["oddities"] if oddity["kind"] == "not finite")
    assert odd["episodes"] == [0, 1, 2, 3]
    assert "'next.reward' holds NaN or infinity in episodes 0, 1, 2, 3" in odd["message"]


def test_json_is_for_programs(dataset, capsys):
    assert run(["info", str(dataset), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["num_episodes"], content["num_frames"], content["fps"]) == (4, 111, 10.0)
    assert content["truth"]["by_kind"] == {"action_noise": 1}
    assert content["unusable"] == {}
    assert list(content["without_pictures"]) == ["3"]


def test_the_offset_of_the_consequence_can_be_chosen(dataset, capsys):
    run(["info", str(dataset), "--json", "--offset_steps=1"])
    assert json.loads(capsys.readouterr().out)["futures"]["num_without_future"] == 4


def test_no_dataset_and_no_such_dataset_are_clear(tmp_path):
    with pytest.raises(ConfigError, match="ptr info DATASET"):
        run(["info"])
    with pytest.raises(DataError, match="nowhere"):
        run(["info", str(tmp_path / "nowhere")])
