"""Saved policies come back the same, or say in one line why they cannot."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from ptr_robot.errors import ConfigError, DataError
from ptr_robot.policy import policy_files as save
from ptr_robot.policy.policy_files import load_weights
from ptr_robot.policy.registry import load_policy, save_policy
from ptr_robot.policy.robot_record import RobotRecord, check_robot
from ptr_robot.policy.vla.policy import build_policy
from tests.policy.conftest import make_observation, noise, small_config

ROBOT = RobotRecord("metaworld", state_slots=(0, 1, 2, 44), action_slots=(0, 1, 2, 18))


def test_a_saved_policy_predicts_the_same(any_policy, belief, tmp_path):
    folder = save_policy(any_policy, tmp_path / "policy", [ROBOT])
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    loaded = load_policy(folder)
    assert loaded.robots == (ROBOT,)
    assert loaded.policy.config == any_policy.config
    assert not loaded.policy.training
    before, after = (
        policy.predict(make_observation(), belief, noise=noise(3)).actions for policy in (any_policy, loaded.policy)
    )
    torch.testing.assert_close(before, after, rtol=0, atol=0)


def test_an_existing_folder_is_never_touched(flow_policy, tmp_path):
    (tmp_path / "policy").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        save_policy(flow_policy, tmp_path / "policy")
    assert list((tmp_path / "policy").iterdir()) == []


def test_a_save_that_fails_leaves_nothing(flow_policy, tmp_path, monkeypatch):
    def full_disk(tensors, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full_disk)
    with pytest.raises(DataError, match=r"could not be written.*No space left"):
        save_policy(flow_policy, tmp_path / "policy")
    assert list(tmp_path.iterdir()) == []


def test_what_an_interrupted_save_left_behind_is_replaced(flow_policy, tmp_path):
    (tmp_path / ".policy.partial").mkdir()
    (tmp_path / ".policy.partial" / "junk").write_text("")
    folder = save_policy(flow_policy, tmp_path / "policy")
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]
    assert not (folder / "junk").exists()


def test_the_first_tensor_that_does_not_fit_is_named(flow_policy, tmp_path):
    folder = save_policy(flow_policy, tmp_path / "policy")
    weights = folder / save.WEIGHTS_FILE
    wider = build_policy(small_config(num_state_tokens=3), seed=0)
    with pytest.raises(
        DataError, match=r"'state_embedder.2.weight' has shape \(64, 32\) and this policy has \(96, 32\)"
    ):
        load_weights(wider, weights)
    with pytest.raises(DataError, match=r"holds the tensor 'vision\.[a-z0-9_.]+', which this policy lacks"):
        load_weights(build_policy(small_config(vision=False), seed=0), weights)
    tensors = load_file(weights)
    del tensors["trunk.und.norm.weight"]
    save_file(tensors, weights)
    with pytest.raises(DataError, match=r"lacks the tensor 'trunk.und.norm.weight'"):
        load_policy(folder)


def test_damaged_files_are_named(flow_policy, tmp_path):
    folder = save_policy(flow_policy, tmp_path / "policy")
    weights = folder / save.WEIGHTS_FILE
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"model.safetensors is not a whole safetensors file"):
        load_policy(folder)
    weights.unlink()
    with pytest.raises(DataError, match=r"model.safetensors: no such file"):
        load_policy(folder)
    config = folder / save.CONFIG_FILE
    record = json.loads(config.read_text())
    config.write_text(json.dumps(record | {"format": 99}))
    with pytest.raises(DataError, match="format 2 or 1"):
        load_policy(folder)
    config.write_text("{")
    with pytest.raises(DataError, match="not valid JSON"):
        load_policy(folder)
    with pytest.raises(DataError, match="give the folder of a saved policy"):
        load_policy(tmp_path)


def test_another_robot_is_refused_by_the_first_field_that_differs():
    check_robot([ROBOT], dataclasses.replace(ROBOT, name="same slots, other name"), "runs/x")
    other = RobotRecord("g1", state_slots=ROBOT.state_slots, action_slots=tuple(range(50, 64)))
    with pytest.raises(ConfigError, match=r"'metaworld' with action_slots 0-2, 18; 'g1' has 50-63"):
        check_robot([ROBOT], other, "runs/x")
    blind = dataclasses.replace(ROBOT, state_slots=())
    with pytest.raises(ConfigError, match=r"state_slots 0-2, 44; 'metaworld' has none"):
        check_robot([other, ROBOT], blind, "runs/x")
    with pytest.raises(ConfigError, match="does not say which robot"):
        check_robot([], ROBOT, "runs/x")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record.update(robots=None),
        lambda record: record["robots"][0].pop("state_slots"),
        lambda record: record["policy"].update(trunk="x"),
        lambda record: record["policy"]["trunk"].update(num_heads="4"),
    ],
)
def test_a_config_that_was_edited_into_nonsense_is_one_line(flow_policy, tmp_path, spoil):
    folder = save_policy(flow_policy, tmp_path / "policy", [RobotRecord("arm", (0, 1), (0, 1))])
    record = json.loads((folder / "config.json").read_text())
    spoil(record)
    (folder / "config.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match=r"config\.json cannot be read") as caught:
        load_policy(folder)
    assert "\n" not in str(caught.value)
