"""Latency and throughput of ``ptr serve``, with openpi's client over loopback, beside the policy alone.

    PYTHONPATH=. python benchmarks/serve.py --clients 1 4 --requests 50

Prints milliseconds a request (median and 95th percentile), requests a second, and processor milliseconds a request of
server and clients together, which other work on the machine disturbs least; each beside ``DeployedPolicy.act`` of one
observation in the same process. A request holds a picture of 480 x 640; the default policy is as small as they get, so
that what is seen is the server.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from openpi_client.websocket_client_policy import WebsocketClientPolicy

from ptr_robot.cli.serve import ServedPolicy, ServeFlags, make_server
from ptr_robot.policy.deployed import DeployedPolicy, RobotObservation
from ptr_robot.train.trained import load_trained
from tests.study.conftest import CAMERA_KEY, make_trained, save_run


def observation(seed: int) -> dict[str, object]:
    """What a client sends: a state, a picture of camera size, a prompt."""
    generator = np.random.default_rng(seed)
    picture = generator.integers(0, 255, (480, 640, 3)).astype(np.uint8)
    return {
        "observation/state": generator.normal(size=4).astype(np.float32),
        CAMERA_KEY: picture,
        "prompt": "push the puck",
    }


def start(run: Path) -> int:
    """A server in a thread; gives its port."""
    ready, ports = threading.Event(), []

    def announce(port: int) -> None:
        ports.append(port)
        ready.set()

    server = make_server(ServeFlags(policy=ServedPolicy(path=str(run)), port=0))
    threading.Thread(target=lambda: asyncio.run(server.serve(announce)), daemon=True).start()
    ready.wait()
    return ports[0]


def ask(port: int, requests: int) -> list[float]:
    """Seconds of each request of one client."""
    client, seen, seconds = WebsocketClientPolicy(host="127.0.0.1", port=port), observation(0), []
    client.infer(seen)
    for _ in range(requests):
        started = time.perf_counter()
        client.infer(seen)
        seconds.append(time.perf_counter() - started)
    return seconds


def alone(run: Path, requests: int) -> tuple[float, float]:
    """The policy without a server: the median of the seconds, and processor seconds, of an action chunk."""
    trained = load_trained(run)
    policy = DeployedPolicy(trained.policy, trained.belief, trained.sources[0])
    seen = observation(0)
    own = RobotObservation(np.asarray(seen["observation/state"]), {CAMERA_KEY: np.asarray(seen[CAMERA_KEY])}, "push")
    policy.reset(0, 0)
    policy.act([0], [own])
    seconds, begun = [], time.process_time()
    for _ in range(requests):
        started = time.perf_counter()
        policy.act([0], [own])
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), (time.process_time() - begun) / requests


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--policy", help="a run of ptr train; default: a small policy with random weights")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(arguments.policy) if arguments.policy else save_run(make_trained(), Path(folder) / "run")
        single, processor = alone(run, arguments.requests)
        print("clients | median | 95% | requests a second | processor time a request")
        print(f"policy alone | {1000 * single:.1f} ms | | {1 / single:.0f} | {1000 * processor:.1f} ms")
        port = start(run)
        for count in arguments.clients:
            begun, started = time.process_time(), time.perf_counter()
            with ThreadPoolExecutor(count) as pool:
                seconds = [s for own in pool.map(ask, [port] * count, [arguments.requests] * count) for s in own]
            rate = len(seconds) / (time.perf_counter() - started)
            spent = (time.process_time() - begun) / (len(seconds) + count)  # each client asks once more to warm up
            middle, high = np.quantile(seconds, [0.5, 0.95])
            print(f"{count} | {1000 * middle:.1f} ms | {1000 * high:.1f} ms | {rate:.0f} | {1000 * spent:.1f} ms")


if __name__ == "__main__":
    main()
