"""What PTR, the training loop and the rollouts ask of any policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from ptr_robot.method.ptr.algorithm import ChunkStep
from ptr_robot.method.types import ChunkForward
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation


class PolicyShape(Protocol):
    """What the configuration of any policy says before it is built."""

    @property
    def chunk_length(self) -> int:
        """L: actions in a chunk."""

    @property
    def image_size(self) -> int:
        """Pixels of a square image; 0: the policy looks at no images."""

    @property
    def num_belief_tokens(self) -> int:
        """M; 0: the policy takes no belief."""


@dataclass(frozen=True)
class PolicySizes:
    """The widths that PTR's modules must meet."""

    chunk_length: int  # L
    context_dim: int  # Dh of h_t
    action_dim: int  # Da of E_t; belief tokens have this width too
    action_state_dim: int  # Dc of C_t
    num_belief_tokens: int  # M; 0 where the policy takes no belief


@dataclass(frozen=True)
class Prediction:
    """A sampled chunk, and what the belief recursion needs to go on from it."""

    actions: Tensor  # (N, L, 200) normalised, zero in the slots the robot lacks
    action_tokens: Tensor  # (N, L, Da) E_t of the predicted chunk
    action_states: Tensor  # (N, L, Dc) C_t of the last pass that led to it
    contexts: Tensor  # (N, Dh) h_t


@dataclass(frozen=True)
class TrainingChunk:
    """One chunk of each of B segments, with what its training pass draws."""

    observation: Observation
    recorded: ActionChunk
    noise: Noise


class Policy(nn.Module, ABC):
    """A policy that learns from chunks and hands PTR the features of its ordinary forward pass.

    All randomness (noise, time steps, augmentation, sampling) comes from the ``noise`` that is passed in. It is keyed
    by sample: a sample's draws depend on nothing around it, and there is no generator's state to save.
    """

    config: PolicyShape  # what it is made of, as its saved folder keeps it

    @property
    @abstractmethod
    def sizes(self) -> PolicySizes:
        """The widths of what ``forward_chunk`` returns."""

    @property
    @abstractmethod
    def vision_tower(self) -> nn.Module | None:
        """The module that turns (n, 3, H, W) uint8 images into features: EMA targets copy it; None: no images."""

    @property
    def num_prefix_tokens(self) -> int:
        """How many leading tokens of the tower's blocks are not patches (class and register tokens)."""
        return 0

    @property
    def sharded_units(self) -> Sequence[nn.Module]:
        """The modules that a sharded run gathers one at a time; each must be called as a module."""
        return ()

    def check_instructions(self, texts: Iterable[str]) -> None:
        """Refuse, before the first step, an instruction that the policy cannot read."""

    @abstractmethod
    def forward_chunk(
        self,
        observation: Observation,
        chunk: ActionChunk,
        belief: Tensor | None = None,  # (N, M, Da) z_t
        *,
        noise: Noise,
    ) -> ChunkForward:
        """The training pass over N chunks: unreduced losses, and the features that PTR reads."""

    def forward_segments(self, chunks: Sequence[TrainingChunk]) -> ChunkStep:
        """The training pass over the T chunks of B segments, to be asked for chunk by chunk as the belief moves on.

        A policy that can compute what does not depend on the belief for all chunks at once does so here, and finishes
        each chunk when its belief is known.
        """

        def step(index: int, belief: Tensor | None) -> ChunkForward:
            chunk = chunks[index]
            return self.forward_chunk(chunk.observation, chunk.recorded, belief, noise=chunk.noise)

        return step

    @abstractmethod
    def predict(
        self,
        observation: Observation,
        belief: Tensor | None = None,  # (N, M, Da) z_t
        *,
        noise: Noise,
    ) -> Prediction:
        """Sample a chunk for each observation, without gradients."""

    def forward(
        self,
        observation: Observation,
        chunk: ActionChunk,
        belief: Tensor | None = None,
        *,
        noise: Noise,
    ) -> ChunkForward:
        """``forward_chunk``, under the name that torch's wrappers (DDP, FSDP) call."""
        return self.forward_chunk(observation, chunk, belief, noise=noise)
