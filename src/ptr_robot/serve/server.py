"""The websocket server, in openpi's protocol: metadata on connect, then observations in and chunks of actions out.

Each connection is one robot with one episode at a time. An episode begins with the connection, and again with every
observation that carries ``reset: true``; the belief starts anew there. A message that cannot be used is answered with
one line of text, which openpi's client raises; the connection stays.
"""

from __future__ import annotations

import asyncio
import hmac
import http
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ptr_robot.errors import ConfigError, PTRError, require
from ptr_robot.serve.batching import ActingPolicy, Batcher
from ptr_robot.serve.messages import flatten, pack, unpack
from ptr_robot.serve.observations import ObservationReader

HEALTH_PATH = "/healthz"
LOGGER = logging.getLogger("ptr_robot.serve")


@dataclass(frozen=True)
class ServerConfig:
    """Where the server listens, and what it lets in."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    api_key: str | None = field(default=None, repr=False)
    max_message_bytes: int = 64 * 2**20
    max_clients: int = 32
    max_batch: int = 16
    seed: int = 0  # of the first episode's noise; later ones count up

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65536:
            raise ConfigError(f"port is {self.port}; it must be from 0 to 65535")
        for name in ("max_message_bytes", "max_clients", "max_batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.seed < 0:
            raise ConfigError(f"seed is {self.seed}; it must be 0 or more")


class PolicyServer:
    """Serves one policy to several clients."""

    def __init__(
        self, policy: ActingPolicy, reader: ObservationReader, metadata: dict[str, Any], config: ServerConfig
    ) -> None:
        self._policy, self._reader, self._metadata, self._config = policy, reader, metadata, config
        self._batcher = Batcher(policy, config.max_batch)
        self._free = set(range(config.max_clients))
        self._num_episodes = 0

    async def serve(self, on_ready: Callable[[int], None] | None = None) -> None:
        """Serve until cancelled; ``on_ready`` is told the port."""
        websockets = require("websockets.asyncio.server", "serve")
        answering = asyncio.create_task(self._batcher.run())
        try:
            async with websockets.serve(
                self._talk,
                self._config.host,
                self._config.port,
                compression=None,
                max_size=self._config.max_message_bytes,
                process_request=self._admit,
            ) as server:
                if on_ready is not None:
                    on_ready(server.sockets[0].getsockname()[1])
                await server.serve_forever()
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {self._config.host}:{self._config.port} ({error.strerror}); choose another --port"
            ) from error
        finally:
            answering.cancel()

    def _admit(self, connection: Any, request: Any) -> Any:
        """Answer health checks, and refuse who has no key or finds no room; None lets the client in."""
        if request.path == HEALTH_PATH:
            return connection.respond(http.HTTPStatus.OK, "OK\n")
        if self._config.api_key is not None:
            given = request.headers.get("Authorization", "")
            if not hmac.compare_digest(given.encode(), f"Api-Key {self._config.api_key}".encode()):
                return connection.respond(http.HTTPStatus.UNAUTHORIZED, "a valid API key is needed\n")
        if not self._free:
            return connection.respond(
                http.HTTPStatus.SERVICE_UNAVAILABLE, f"all {self._config.max_clients} places are taken\n"
            )
        return None

    async def _talk(self, connection: Any) -> None:
        if not self._free:
            await connection.close(1013, "all places are taken")
            return
        slot = self._free.pop()
        closed = require("websockets.exceptions", "serve").ConnectionClosed
        try:
            self._begin_episode(slot)
            await connection.send(pack(self._metadata))
            async for data in connection:
                await connection.send(await self._answer(slot, data))
        except closed:
            pass
        finally:
            self._free.add(slot)

    def _begin_episode(self, slot: int) -> None:
        self._policy.reset(slot, self._config.seed + self._num_episodes)
        self._num_episodes += 1

    async def _answer(self, slot: int, data: str | bytes) -> str | bytes:
        """Bytes with a chunk, or a line of text that says what is wrong."""
        started = time.perf_counter()
        try:
            if isinstance(data, str):
                return "the message is text; send msgpack as openpi's client packs it"
            message = flatten(unpack(data))
            if message.pop("reset", False):
                self._begin_episode(slot)
                if not message:
                    return pack({"reset": True})
            actions = await self._batcher.ask(slot, self._reader.read(message))
        except PTRError as error:
            return " ".join(str(error).split())
        except Exception:
            LOGGER.exception("inference failed")
            return "the policy failed on this observation; the server's log has the reason"
        return pack({"actions": actions, "server_timing": {"infer_ms": 1000 * (time.perf_counter() - started)}})
