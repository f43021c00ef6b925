"""``ptr serve --policy.path=RUN``: a trained policy for robots whose stacks speak openpi's websocket protocol."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptr_robot import __version__
from ptr_robot.cli.flags import parse_flags
from ptr_robot.errors import ConfigError

if TYPE_CHECKING:
    from ptr_robot.serve.batching import ActingPolicy
    from ptr_robot.serve.observations import ObservationReader
    from ptr_robot.serve.server import PolicyServer

API_KEY_VARIABLE = "PTR_SERVE_API_KEY"


@dataclass(frozen=True)
class ServedPolicy:
    """Which policy."""

    # A run (its last checkpoint), a checkpoint or its pretrained_model folder.
    path: str = ""
    # cpu or cuda.
    device: str = "cpu"


@dataclass(frozen=True)
class ServeFlags:
    """Serve a trained policy over a websocket to openpi-client: ptr serve --policy.path=RUN."""

    policy: ServedPolicy = field(default_factory=ServedPolicy)
    host: str = "127.0.0.1"  # address to listen on; 0.0.0.0 lets other machines in: set an API key then
    port: int = 8000  # port to listen on; 0: any free one
    api_key: str | None = None  # what clients must present; default: the variable PTR_SERVE_API_KEY
    robot: str | None = None  # which robot's units, where the policy was trained for several; default: the first
    instruction: str = ""  # for observations without a prompt
    # The policy's names and the client's, where they differ: {observation.images.top: images/cam_high}.
    keys: dict[str, str] = field(default_factory=dict)
    max_message_mb: int = 64  # larger messages end the connection
    max_clients: int = 32  # connections at a time
    seed: int = 0  # of the noise that actions are sampled from
    # Actions of a chunk that clients carry out before they ask again, by which belief moves on; by default all.
    n_action_steps: int | None = None


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    flags = parse_flags(ServeFlags, arguments)
    if not flags.policy.path:
        raise ConfigError("the policy is missing: ptr serve --policy.path=RUN")
    server = make_server(flags)

    def announce(port: int) -> None:
        sys.stderr.write(f"serving {flags.policy.path} on ws://{flags.host}:{port} (Ctrl-C ends it)\n")
        sys.stderr.flush()

    asyncio.run(server.serve(announce))
    return 0


def make_server(flags: ServeFlags) -> PolicyServer:
    """The server that the flags describe."""
    from ptr_robot.lerobot.saved import find_pretrained
    from ptr_robot.serve.server import PolicyServer, ServerConfig

    config = ServerConfig(
        host=flags.host,
        port=flags.port,
        api_key=flags.api_key or os.environ.get(API_KEY_VARIABLE),
        max_message_bytes=flags.max_message_mb * 2**20,
        max_clients=flags.max_clients,
        seed=flags.seed,
    )
    if flags.n_action_steps is not None and flags.n_action_steps < 1:
        raise ConfigError(
            f"n_action_steps is {flags.n_action_steps}; give how many actions clients carry out, at least 1"
        )
    path = Path(flags.policy.path).expanduser()
    served = _lerobot_policy(path, flags) if find_pretrained(path) is not None else _own_policy(path, flags)
    return PolicyServer(served.policy, served.reader, {"server": f"ptr-robot {__version__}", **served.facts}, config)


@dataclass(frozen=True)
class _Served:
    policy: ActingPolicy
    reader: ObservationReader
    facts: dict[str, Any]  # what clients are told of it


def _own_policy(path: Path, flags: ServeFlags) -> _Served:
    """A policy of ``ptr train``."""
    from ptr_robot.policy.deployed import DeployedPolicy
    from ptr_robot.serve.observations import ObservationReader
    from ptr_robot.train.trained import load_trained

    trained = load_trained(path)
    source = trained.source(flags.robot or trained.sources[0].robot)
    policy = DeployedPolicy(trained.policy, trained.belief, source, flags.policy.device, flags.n_action_steps)
    facts = {
        "robot": source.robot,
        "action_dim": source.action_map.slots.size,
        "action_horizon": trained.policy.sizes.chunk_length,
        "state_dim": source.state_map.slots.size,
        "cameras": list(policy.camera_keys),
        "fps": source.fps,
        "instructions": list(source.tasks),
    }
    reader = ObservationReader(policy.camera_keys, keys=flags.keys, default_instruction=flags.instruction)
    return _Served(policy, reader, facts)


def _lerobot_policy(path: Path, flags: ServeFlags) -> _Served:
    """A policy of ``lerobot-train``."""
    from ptr_robot.lerobot.deployed import DeployedLeRobotPolicy
    from ptr_robot.serve.observations import ObservationReader

    if flags.robot is not None:
        raise ConfigError(f"robot is {flags.robot!r}; a policy of lerobot-train has one robot, so leave the flag out")
    policy = DeployedLeRobotPolicy.load(path, flags.policy.device, flags.n_action_steps)
    facts = {
        "policy": policy.kind,
        "action_dim": policy.action_dim,
        "action_horizon": policy.action_horizon,
        "state_dim": policy.state_dim,
        "cameras": list(policy.camera_keys),
        "num_frames": policy.num_frames,
    }
    reader = ObservationReader(
        policy.camera_keys,
        keys=flags.keys,
        default_instruction=flags.instruction,
        has_state=policy.state_dim > 0,
        has_history=policy.num_frames > 1,
    )
    return _Served(policy, reader, facts)
