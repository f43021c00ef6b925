"""What a rollout asks of a policy: chunks of actions for the observations it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.base import Environment, Image


@dataclass(frozen=True)
class RolloutEpisode:
    """One episode to roll out: a task and the seed of its layout, or the number of an official initial state."""

    task: str
    seed: int
    initial_state: int | None = None


class RolloutObservation:
    """What a policy may look at when it chooses a chunk; an image is rendered if it is asked for, and once at most."""

    def __init__(self, environment: Environment, slot: int, episode: RolloutEpisode) -> None:
        self._environment = environment
        self._images: dict[str, Image] = {}
        self.slot = slot  # the place in the batch, between a ``reset`` and the next the same episode
        self.episode = episode
        self.instruction: str = environment.instruction
        self.states: Mapping[str, npt.NDArray[np.float32]] = environment.states

    def image(self, camera: str) -> Image:
        """The current picture of a camera; read it before the chunk is executed, as a policy does."""
        if camera not in self._images:
            self._images[camera] = self._environment.render(camera)
        return self._images[camera]

    @property
    def has_looked(self) -> bool:
        """Whether an image was asked for."""
        return bool(self._images)


class RolloutPolicy(Protocol):
    """A policy of several episodes at once, each in its slot.

    State that is carried from chunk to chunk, such as belief tokens or a generator for sampling, belongs to a slot and
    begins anew with ``reset``. If it depends on nothing but the episode and its observations, results do not
    depend on how episodes are spread over processes.
    """

    def reset(self, slot: int, episode: RolloutEpisode) -> None:
        """An episode begins in ``slot``."""

    def act(self, observations: Sequence[RolloutObservation]) -> npt.NDArray[Any]:  # (N, L, Da)
        """A chunk of actions for each observation; slots whose episode has ended are not among them."""
