"""A policy of ``lerobot-train`` that acts in several episodes: the actions are those of LeRobot's own commands."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch
from lerobot.policies.factory import make_pre_post_processors
from lerobot.policies.utils import prepare_observation_for_inference

from ptr_robot.errors import ConfigError, DataError, ShapeError
from ptr_robot.lerobot.deployed import DeployedLeRobotPolicy
from ptr_robot.method.hashing import hash_integers
from ptr_robot.policy.deployed import RobotObservation
from tests.lerobot.saved_policies import TASK, history, observation, save_policy
from tests.lerobot.small_policies import (
    ACT,
    ACTION_DIM,
    BELIEVING_SMOLVLA,
    CAMERA,
    DIFFUSION,
    PIS,
    SMOLVLA,
    STATE,
    VLA,
)
from tests.lerobot.stock_commands import load
from tests.lerobot.tiny_paligemma import write_tokenizer

KINDS = [ACT, DIFFUSION, SMOLVLA, BELIEVING_SMOLVLA, VLA, *PIS]
NAMES = ["act", "diffusion", "smolvla", "smolvla with belief", "vla", *(kind.base for kind in PIS)]
SEED = 7


@pytest.fixture(autouse=True)
def tokenizer_here(tmp_path, monkeypatch):
    if PIS:
        write_tokenizer(tmp_path)
        monkeypatch.chdir(tmp_path)


class Stock:
    """The same folder by LeRobot's own functions: one episode, one action at a time."""

    def __init__(self, folder):
        self.policy = load(folder)
        self._before, self._after = make_pre_post_processors(self.policy.config, pretrained_path=str(folder))
        self.policy.reset()

    def step(self, seen: RobotObservation) -> np.ndarray:  # (D,)
        raw = prepare_observation_for_inference({STATE: seen.state, **seen.images}, torch.device("cpu"), TASK, None)
        return self._after(self.policy.select_action(self._before(raw)))[0].numpy()

    def chunk(self, number: int, seen: RobotObservation, length: int) -> np.ndarray:  # (L, D)
        """With the random numbers of an episode's chunk."""
        torch.manual_seed(int(hash_integers(torch.tensor([SEED]), number)))
        return np.stack([self.step(seen) for _ in range(length)])


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_actions_are_those_of_lerobot_whatever_other_episodes_do(kind, tmp_path):
    folder = save_policy(kind, tmp_path / "run" / "checkpoints" / "last" / "pretrained_model")
    stock = Stock(folder)
    deployed = DeployedLeRobotPolicy.load(tmp_path / "run")
    deployed.reset(0, SEED)
    deployed.reset(3, seed=99)
    for number in range(2):
        seen = observation(number)
        found = deployed.act([3, 0], [observation(50 + number), seen])[1]
        if kind is DIFFUSION:
            stock.policy.reset()  # a single frame stands for the history, as when an episode begins
        assert found.shape == (deployed.action_horizon, ACTION_DIM)
        expected = stock.chunk(number, seen, deployed.action_horizon)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_a_history_of_frames_reaches_the_policy(tmp_path):
    folder = save_policy(DIFFUSION, tmp_path / "policy")
    stock, deployed = Stock(folder), DeployedLeRobotPolicy.load(folder)
    assert deployed.num_frames == 2
    deployed.reset(0, SEED)
    found = deployed.act([0], [history([observation(1), observation(2)])])[0]
    stock.step(observation(1))
    stock.policy._queues["action"].clear()
    np.testing.assert_allclose(found[0], stock.chunk(0, observation(2), 1)[0], rtol=0, atol=1e-6)
    with pytest.raises(ShapeError, match="has 3 frames; ptr_diffusion looks at 2"):
        deployed.act([0], [history([observation(number) for number in range(3)])])


def test_a_reset_forgets_the_belief_and_begins_other_noise(tmp_path):
    deployed = DeployedLeRobotPolicy.load(save_policy(VLA, tmp_path / "policy"))
    chunks = []
    for seed in (SEED, SEED, SEED + 1):
        deployed.reset(0, seed)
        chunks.append([deployed.act([0], [observation()])[0] for _ in range(2)])
    np.testing.assert_array_equal(chunks[0], chunks[1])
    assert not np.array_equal(chunks[0][0], chunks[0][1])
    assert not np.array_equal(chunks[0][0], chunks[2][0])


@pytest.mark.parametrize("kind", [VLA, BELIEVING_SMOLVLA], ids=["vla", "smolvla"])
def test_looking_more_often_than_in_training_moves_the_belief_no_faster(kind, tmp_path):
    policy = load(save_policy(kind, tmp_path / "policy"))
    period = policy.config.offset_steps
    assert period == policy.config.n_action_steps > 1
    policy.config.ptr = dataclasses.replace(policy.config.ptr, offset_steps=period)
    policy.config.n_action_steps = period // 2
    before, _ = make_pre_post_processors(policy.config, pretrained_path=str(tmp_path / "policy"))
    policy.reset()
    looks = []
    for number in range(3):
        seen = observation(number)
        raw = prepare_observation_for_inference({STATE: seen.state, **seen.images}, torch.device("cpu"), TASK, None)
        policy.predict_action_chunk(before(raw))
        looks.append(policy._belief)
    first, second, third = looks
    assert first.now is None is second.now
    assert second.following is first.following is third.now
    assert third.following is not first.following


def test_the_base_policy_acts_too(tmp_path):
    folder = save_policy(ACT, tmp_path / "policy", is_base=True)
    deployed = DeployedLeRobotPolicy.load(folder)
    deployed.reset(0, SEED)
    found = deployed.act([0], [observation()])[0]
    np.testing.assert_allclose(found, Stock(folder).chunk(0, observation(), 6), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": np.zeros(4, np.float32)}, r"state has shape \(4,\); the policy was trained with \(5,\)"),
        ({"state": np.full(5, np.inf, np.float32)}, "not finite"),
        ({"images": {}}, "which the observation lacks"),
        ({"images": {CAMERA: np.zeros((24, 48, 3), np.uint8)}}, "is 24 x 48; ptr_act was trained on 48 x 48"),
        ({"images": {CAMERA: np.zeros((48, 48), np.uint8)}}, "must be uint8"),
    ],
)
def test_a_wrong_observation_is_one_line(act_folder, change, message):
    deployed = DeployedLeRobotPolicy.load(act_folder)
    deployed.reset(0, SEED)
    seen = observation()
    images = dict(seen.images) | change["images"] if change.get("images") else change.get("images", seen.images)
    with pytest.raises((ShapeError, ConfigError), match=message):
        deployed.act([0], [RobotObservation(change.get("state", seen.state), images, TASK)])


def test_ptr_eval_names_the_command_that_evaluates_it(act_folder):
    from ptr_robot.cli.main import run

    (act_folder / "train_config.json").write_text("{}")
    with pytest.raises(DataError, match="is a policy of lerobot-train: lerobot-eval evaluates it"):
        run(["eval", f"--policy.path={act_folder}", "--env.type=metaworld"])


@pytest.fixture(scope="module")
def act_folder(tmp_path_factory):
    return save_policy(ACT, tmp_path_factory.mktemp("act") / "policy")


def changed(folder, name, change):
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(json.dumps(content))


def test_what_cannot_be_loaded_is_one_line(tmp_path):
    folder = save_policy(ACT, tmp_path / "policy")
    whole = {name: (folder / name).read_bytes() for name in ("config.json", "policy_preprocessor.json")}

    def again():
        for name, content in whole.items():
            (folder / name).write_bytes(content)

    with pytest.raises(DataError, match="holds no LeRobot policy"):
        DeployedLeRobotPolicy.load(tmp_path / "none")
    changed(folder, "policy_preprocessor.json", lambda content: content["steps"].append({"class": "os.system"}))
    with pytest.raises(DataError, match=r"names the step 'os\.system'"):
        DeployedLeRobotPolicy.load(folder)
    again()
    changed(folder, "config.json", lambda content: content.update(type="tdmpc"))
    with pytest.raises(ConfigError, match="policy of type 'tdmpc'"):
        DeployedLeRobotPolicy.load(folder)
    again()
    changed(folder, "config.json", lambda content: content.update(dim_model="wide"))
    with pytest.raises(DataError, match="cannot be loaded by LeRobot"):
        DeployedLeRobotPolicy.load(folder)
    again()
    (folder / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(DataError, match="cannot be loaded by LeRobot"):
        DeployedLeRobotPolicy.load(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"model\.safetensors: no such file"):
        DeployedLeRobotPolicy.load(folder)
    (folder / "policy_postprocessor.json").unlink()
    with pytest.raises(DataError, match="no such file; LeRobot saves a policy's processors"):
        DeployedLeRobotPolicy.load(folder)


def test_a_damaged_config_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(DataError, match=r"config\.json"):
        DeployedLeRobotPolicy.load(tmp_path)
