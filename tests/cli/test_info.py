"""``ptr info`` on a terminal and for programs."""

from __future__ import annotations

import json

import pytest

from ptr_robot.cli.main import run
from ptr_robot.data.ground_truth import EpisodeTruth, Fault, write_ground_truth
from ptr_robot.errors import ConfigError, DataError

from ..data.v21_writer import TASKS, video_path, write_v21


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
    for fact in ("LeRobot v2.1", "80 at 10 fps, 8 s", "observation.state", *TASKS, "action noise 1"):
        assert fact in text
    assert "action 4: right_eef_position 3, right_gripper 1" in text
    assert "48 of 80 chunks (60.0%)" in text
    assert "episode 3" in text.partition("Cannot be used")[2]


def test_a_robot_without_a_map_gets_the_remedy(tmp_path, capsys):
    write_v21(tmp_path / "own", robot_type="homemade")
    run(["info", str(tmp_path / "own")])
    assert "unknown robot: write a slot map, see docs/add_a_robot.md" in capsys.readouterr().out


def test_json_is_for_programs(dataset, capsys):
    assert run(["info", str(dataset), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["num_episodes"], content["num_frames"], content["fps"]) == (3, 80, 10.0)
    assert content["truth"]["by_kind"] == {"action_noise": 1}
    assert list(content["unusable"]) == ["3"]


def test_the_offset_of_the_consequence_can_be_chosen(dataset, capsys):
    run(["info", str(dataset), "--json", "--offset_steps=1"])
    assert json.loads(capsys.readouterr().out)["futures"]["num_without_future"] == 3


def test_no_dataset_and_no_such_dataset_are_clear(tmp_path):
    with pytest.raises(ConfigError, match="ptr info DATASET"):
        run(["info"])
    with pytest.raises(DataError, match="nowhere"):
        run(["info", str(tmp_path / "nowhere")])
