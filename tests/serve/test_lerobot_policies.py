"""Policies of ``lerobot-train`` behind the server, with openpi's real client."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ptr_robot.cli.serve import ServedPolicy, ServeFlags, make_server
from ptr_robot.errors import ConfigError
from ptr_robot.lerobot.deployed import DeployedLeRobotPolicy
from tests.lerobot.saved_policies import TASK, history, observation, save_policy
from tests.lerobot.small_policies import ACT, CAMERA, DIFFUSION, SIDE, SMOLVLA, STATE_DIM, VLA
from tests.serve.running import Running

KINDS = pytest.mark.parametrize(
    "kind", [ACT, DIFFUSION, SMOLVLA, VLA], ids=["ptr_act", "ptr_diffusion", "ptr_smolvla", "ptr_vla"]
)


class Served:
    """A server with one client."""

    def __init__(self, folder, **flags):
        from openpi_client.websocket_client_policy import WebsocketClientPolicy

        self._server = Running(ServeFlags(policy=ServedPolicy(path=str(folder)), port=0, **flags))
        self.connect = lambda: WebsocketClientPolicy(host="127.0.0.1", port=self._server.port)

    def __enter__(self):
        self.client = self.connect()
        return self.client

    def __exit__(self, *_):
        self.client._ws.close()
        self._server.stop()


def message(seen) -> dict:
    """An observation in LeRobot's names."""
    return {"observation.state": seen.state, **seen.images, "prompt": seen.instruction}


@KINDS
def test_each_type_is_served_with_an_episode_for_each_connection(kind, tmp_path):
    folder = save_policy(kind, tmp_path / "run" / "pretrained_model")
    with Served(tmp_path / "run") as client:
        metadata = client.get_server_metadata()
        served = [client.infer(message(observation(number)))["actions"] for number in range(2)]
        client.infer({"reset": True})
        again = client.infer(message(observation()))["actions"]
    assert metadata["policy"] == kind.type
    assert metadata["cameras"] == [CAMERA, SIDE]
    assert metadata["state_dim"] == STATE_DIM
    assert metadata["num_frames"] == kind.history
    policy = DeployedLeRobotPolicy.load(folder)
    policy.reset(0, seed=0)
    expected = [policy.act([0], [observation(number)])[0] for number in range(2)]
    np.testing.assert_array_equal(served, expected)
    assert (metadata["action_horizon"], metadata["action_dim"]) == served[0].shape
    policy.reset(0, seed=1)
    np.testing.assert_array_equal(again, policy.act([0], [observation()])[0])


def test_frames_of_a_history_come_in_one_message(tmp_path):
    folder = save_policy(DIFFUSION, tmp_path / "policy")
    with Served(folder) as client:
        frames = history([observation(1), observation(2)])
        first = message(frames)
        first[CAMERA] = first[CAMERA].transpose(0, 3, 1, 2)  # ALOHA's clients send channels first
        served = client.infer(first)["actions"]
        with pytest.raises(RuntimeError, match="has 3 frames; ptr_diffusion looks at 2"):
            client.infer(message(history([observation(number) for number in range(3)])))
    policy = DeployedLeRobotPolicy.load(folder)
    policy.reset(0, seed=0)
    np.testing.assert_array_equal(served, policy.act([0], [frames])[0])


def test_several_clients_at_once_and_wrong_messages(tmp_path):
    folder = save_policy(VLA, tmp_path / "policy")
    server = Served(folder, keys={CAMERA: "images/cam_high"}, instruction=TASK)
    with server as first:
        clients = [first, server.connect(), server.connect()]
        seen = message(observation())
        seen["images"] = {"cam_high": seen.pop(CAMERA)}
        del seen["prompt"]
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda client: client.infer(seen)["actions"], clients))
        for client in clients[1:]:
            client._ws.close()
        with pytest.raises(RuntimeError, match="the policy was trained with"):
            first.infer(seen | {"observation.state": np.zeros(2, np.float32)})
        with pytest.raises(RuntimeError, match=r"must be an array \(height, width, 3\)"):
            first.infer(seen | {SIDE: np.zeros((2, 48, 48, 3), np.uint8)})
        assert first.infer(seen)["actions"].shape == found[0].shape
    policy = DeployedLeRobotPolicy.load(folder)
    for number, chunk in enumerate(found):
        policy.reset(0, seed=number)
        np.testing.assert_array_equal(chunk, policy.act([0], [observation()])[0])


def test_flags_that_do_not_fit(tmp_path):
    folder = save_policy(ACT, tmp_path / "policy")
    with pytest.raises(ConfigError, match="a policy of lerobot-train has one robot"):
        make_server(ServeFlags(policy=ServedPolicy(path=str(folder)), robot="g1"))
