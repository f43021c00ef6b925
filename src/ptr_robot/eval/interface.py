"""What a rollout asks of a policy: chunks of actions for the observations it is shown."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.metaworld.environment import MetaWorldEnvironment, make_expert
from ptr_robot.envs.metaworld.rendering import Image


@dataclass(frozen=True)
class RolloutEpisode:
    """One episode to roll out: a task and the seed of its layout."""

    task: str
    seed: int


class Observation:
    """What a policy may look at when it chooses a chunk; the image is rendered if it is read, and once at most."""

    def __init__(self, environment: MetaWorldEnvironment, slot: int, episode: RolloutEpisode) -> None:
        self._environment = environment
        self.slot = slot  # the place in the batch, between a ``reset`` and the next the same episode
        self.episode = episode
        self.instruction: str = environment.instruction
        self.state: npt.NDArray[np.float32] = environment.state  # (4,)
        self.environment_state: npt.NDArray[np.float32] = environment.environment_state.astype(np.float32)  # (39,)

    @functools.cached_property
    def image(self) -> Image:
        """The current picture; read it before the chunk is executed, as a policy does."""
        return self._environment.render()


class RolloutPolicy(Protocol):
    """A policy of several episodes at once, each in its slot.

    State that is carried from chunk to chunk, such as belief tokens or a generator for sampling, belongs to a slot and
    begins anew with ``reset``. If it depends on nothing but the episode and its observations, results do not
    depend on how episodes are spread over processes.
    """

    def reset(self, slot: int, episode: RolloutEpisode) -> None:
        """An episode begins in ``slot``."""

    def act(self, observations: Sequence[Observation]) -> npt.NDArray[Any]:  # (N, L, 4)
        """A chunk of actions for each observation; slots whose episode has ended are not among them."""


class ExpertPolicy:
    """Meta-World's scripted experts as a policy, one action a chunk; it never looks at the image."""

    def __init__(self) -> None:
        self._experts: dict[int, Any] = {}

    def reset(self, slot: int, episode: RolloutEpisode) -> None:
        self._experts[slot] = make_expert(episode.task)

    def act(self, observations: Sequence[Observation]) -> npt.NDArray[Any]:  # (N, 1, 4)
        chosen = [
            self._experts[observation.slot].get_action(observation.environment_state.astype(np.float64))
            for observation in observations
        ]
        actions: npt.NDArray[Any] = np.clip(np.stack(chosen), -1.0, 1.0)
        return actions[:, None]
