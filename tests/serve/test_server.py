"""The server with openpi's real client, a small trained policy behind it."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ptr_robot.cli.serve import ServedPolicy, ServeFlags, make_server
from ptr_robot.errors import ConfigError
from ptr_robot.policy.deployed import DeployedPolicy, RobotObservation
from tests.serve.running import Running
from tests.study.conftest import CAMERA_KEY, make_trained, save_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return save_run(make_trained(), tmp_path_factory.mktemp("serve") / "run")


@pytest.fixture(scope="module")
def server(run):
    running = Running(ServeFlags(policy=ServedPolicy(path=str(run)), port=0, max_message_mb=1, max_clients=3))
    yield running
    running.stop()


@pytest.fixture
def client(server):
    from openpi_client.websocket_client_policy import WebsocketClientPolicy

    policy = WebsocketClientPolicy(host="127.0.0.1", port=server.port)
    yield policy
    policy._ws.close()


def observation(seed: int = 0) -> dict:
    generator = np.random.default_rng(seed)
    return {
        "observation/state": generator.normal(size=4).astype(np.float32),
        "observation/corner2": generator.integers(0, 255, (40, 48, 3)).astype(np.uint8),
        "prompt": "push the puck",
    }


def chunks_of(client, count: int = 2, first: int = 0) -> list[np.ndarray]:
    return [client.infer(observation(first + number))["actions"] for number in range(count)]


def test_metadata_comes_first(client):
    metadata = client.get_server_metadata()
    assert metadata["robot"] == "metaworld"
    assert metadata["action_dim"] == 4
    assert metadata["cameras"] == [CAMERA_KEY]


def test_actions_are_the_policys_in_the_robots_units(run):
    """The same chunks as the policy gives without a socket between, belief carried from one to the next."""
    from openpi_client.websocket_client_policy import WebsocketClientPolicy

    running = Running(ServeFlags(policy=ServedPolicy(path=str(run)), port=0))
    client = WebsocketClientPolicy(host="127.0.0.1", port=running.port)
    served = chunks_of(client)
    client._ws.close()
    running.stop()
    trained = make_trained()
    policy = DeployedPolicy(trained.policy, trained.belief, trained.sources[0])
    policy.reset(0, seed=0)
    for number, chunk in enumerate(served):
        seen = observation(number)
        own = RobotObservation(seen["observation/state"], {CAMERA_KEY: seen["observation/corner2"]}, seen["prompt"])
        np.testing.assert_array_equal(policy.act([0], [own])[0], chunk)


def test_a_reset_begins_a_new_episode(client):
    first, second = chunks_of(client)
    assert not np.array_equal(first, second)
    assert client.infer({"reset": True}) == {"reset": True}
    again = client.infer(observation() | {"reset": True})["actions"]
    assert again.shape == first.shape
    assert not np.array_equal(again, first)  # other noise: another episode


def test_several_clients_have_episodes_of_their_own(server):
    from openpi_client.websocket_client_policy import WebsocketClientPolicy

    clients = [WebsocketClientPolicy(host="127.0.0.1", port=server.port) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda client: chunks_of(client, 3), clients))
    assert not np.allclose(found[0][0], found[1][0])
    for client in clients:
        client._ws.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observation/state": np.zeros(5, np.float32)}, "state has shape"),
        ({"observation/state": np.full(4, np.nan, np.float32)}, "not finite"),
        ({"observation/state": "far"}, "not a vector of numbers"),
        ({"observation/corner2": np.zeros((40, 48), np.uint8)}, "height, width, 3"),
        ({"observation/corner2": np.zeros((40, 48, 4), np.uint8)}, "height, width, 3"),
        ({"prompt": 3}, "prompt is a int"),
    ],
)
def test_a_wrong_observation_is_answered_in_one_line_and_the_connection_stays(client, change, message):
    with pytest.raises(RuntimeError, match=message):
        client.infer(observation() | change)
    assert client.infer(observation())["actions"].shape[1] == 4


def test_a_missing_picture_is_named(client):
    seen = observation()
    del seen["observation/corner2"]
    with pytest.raises(RuntimeError, match=r"no picture of 'observation\.images\.corner2'"):
        client.infer(seen)


def test_malformed_messages_are_answered(client):
    client._ws.send(b"\xc1")
    assert "not msgpack" in client._ws.recv()
    client._ws.send("hello")
    assert "is text" in client._ws.recv()
    assert chunks_of(client, 1)[0].shape[1] == 4


def test_a_message_that_is_too_large_ends_the_connection(server):
    from openpi_client.websocket_client_policy import WebsocketClientPolicy
    from websockets.exceptions import ConnectionClosed

    client = WebsocketClientPolicy(host="127.0.0.1", port=server.port)
    with pytest.raises(ConnectionClosed):
        client.infer({"observation/state": np.zeros(2**20, np.float32)})


def test_healthz_answers(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=10) as answer:
        assert answer.status == 200


def test_a_key_is_asked_for(run):
    from openpi_client.websocket_client_policy import WebsocketClientPolicy
    from websockets.exceptions import InvalidStatus

    running = Running(ServeFlags(policy=ServedPolicy(path=str(run)), port=0, api_key="open sesame"))
    with pytest.raises(InvalidStatus, match="401"):
        WebsocketClientPolicy(host="127.0.0.1", port=running.port)
    with pytest.raises(InvalidStatus, match="401"):
        WebsocketClientPolicy(host="127.0.0.1", port=running.port, api_key="open barley")
    client = WebsocketClientPolicy(host="127.0.0.1", port=running.port, api_key="open sesame")
    assert client.get_server_metadata()["robot"] == "metaworld"
    client._ws.close()
    running.stop()


def test_a_taken_port_is_one_line(run, server):
    flags = ServeFlags(policy=ServedPolicy(path=str(run)), port=server.port)
    with pytest.raises(ConfigError, match="cannot listen on"):
        asyncio.run(make_server(flags).serve())


def test_other_names_are_mapped(run):
    from ptr_robot.serve.observations import ObservationReader

    reader = ObservationReader([CAMERA_KEY], keys={CAMERA_KEY: "images/cam_high", "observation.state": "qpos"})
    pixels = np.random.default_rng(0).integers(0, 255, (3, 8, 10)).astype(np.uint8)
    found = reader.read({"images/cam_high": pixels, "qpos": [1, 2, 3, 4], "prompt": b"push"})
    np.testing.assert_array_equal(found.images[CAMERA_KEY], pixels.transpose(1, 2, 0))  # ALOHA sends channels first
    assert found.instruction == "push"
    droid = ObservationReader([])
    parts = {"observation/joint_position": np.arange(7.0), "observation/gripper_position": np.array([9.0])}
    np.testing.assert_array_equal(droid.read(parts).state, [0, 1, 2, 3, 4, 5, 6, 9])
