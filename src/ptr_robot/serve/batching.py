"""Requests of several clients, answered together: what waits while a batch runs is the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ptr_robot.errors import PTRError
from ptr_robot.policy.deployed import RobotObservation


class ActingPolicy(Protocol):
    """A policy with one episode a slot."""

    def reset(self, slot: int, seed: int) -> None:
        """An episode begins."""

    def act(self, slots: Sequence[int], observations: Sequence[RobotObservation]) -> NDArray[np.float32]:
        """(N, L, D) in the robot's units."""


@dataclass(frozen=True)
class _Request:
    slot: int
    observation: RobotObservation
    answer: asyncio.Future[NDArray[np.float32]]


class Batcher:
    """Runs the policy in one thread of its own, for as many waiting requests as ``max_batch`` at a time."""

    def __init__(self, policy: ActingPolicy, max_batch: int = 16) -> None:
        self._policy, self._max_batch = policy, max_batch
        self._waiting: asyncio.Queue[_Request] = asyncio.Queue()

    async def ask(self, slot: int, observation: RobotObservation) -> NDArray[np.float32]:  # (L, D)
        """The chunk for one observation."""
        answer: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        await self._waiting.put(_Request(slot, observation, answer))
        return await answer

    async def run(self) -> None:
        """Answer requests until cancelled."""
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < self._max_batch and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            await self._answer(batch)

    async def _answer(self, batch: Sequence[_Request]) -> None:
        try:
            chunks = await asyncio.to_thread(
                self._policy.act, [entry.slot for entry in batch], [entry.observation for entry in batch]
            )
        except PTRError as error:
            if len(batch) == 1:
                _fail(batch[0], error)
                return
            for entry in batch:  # one bad observation is no other client's fault
                await self._answer([entry])
        except Exception as error:
            for entry in batch:
                _fail(entry, error)
        else:
            for entry, chunk in zip(batch, chunks, strict=True):
                if not entry.answer.done():
                    entry.answer.set_result(chunk)


def _fail(entry: _Request, error: Exception) -> None:
    if not entry.answer.done():
        entry.answer.set_exception(error)
