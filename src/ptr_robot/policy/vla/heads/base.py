"""What the policy asks of an action head, and the reduction that all heads share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from ptr_robot.data.segments.batch import UNIFIED_DIM
from ptr_robot.policy.noise import Noise, Purpose, places


@dataclass(frozen=True)
class PreparedChunk:
    """What goes in at the action positions of a training pass, and what should come out."""

    tokens: Tensor  # (N, L, D)
    targets: Tensor  # (N, L, 200): what the head regresses on, or the bins it classifies


@dataclass(frozen=True)
class SampledChunk:
    """A chunk the head has sampled."""

    actions: Tensor  # (N, L, 200)
    states: Tensor  # (N, L, D) hidden states on the action positions, of the last pass over each


class ActionDecoder(Protocol):
    """The trunk over action positions, with the context's keys and values already computed."""

    def states(self, tokens: Tensor) -> Tensor:  # (N, n, D) -> (N, n, D)
        """Hidden states on these positions; nothing is kept."""

    def extend(self, tokens: Tensor) -> Tensor:  # (N, n, D) -> (N, n, D)
        """Hidden states on these positions, which later calls will see and follow."""


class ActionHead(nn.Module, ABC):
    """Between actions and the trunk's action positions, in both directions.

    Slots that a robot lacks are zero wherever they could enter: in the actions, the noise, the samples and the loss.
    """

    is_causal = False  # True: an action position attends to earlier ones alone

    @abstractmethod
    def embed(self, actions: Tensor, action_mask: Tensor) -> Tensor:  # (N, L, 200), (N, 200) -> (N, L, D)
        """E_t: a chunk through the head's own embedder, at the clean end of its schedule."""

    @abstractmethod
    def prepare(self, actions: Tensor, action_mask: Tensor, noise: Noise) -> PreparedChunk:
        """Draw what a training pass needs (noise, time) and build its inputs and targets."""

    @abstractmethod
    def errors(self, states: Tensor, prepared: PreparedChunk, action_mask: Tensor) -> Tensor:  # (N, L, 200)
        """The loss of each slot of each step; what it gives in slots the robot lacks does not count."""

    @abstractmethod
    def sample(self, decoder: ActionDecoder, action_mask: Tensor, chunk_length: int, noise: Noise) -> SampledChunk:
        """Sample a chunk of actions."""


def per_sample_mean(errors: Tensor, action_is_pad: Tensor, action_mask: Tensor) -> Tensor:  # -> (N,)
    """Mean over valid steps and active slots, so no robot outweighs another by having more joints.

    A chunk without a valid step has a loss of zero.
    """
    counts = (~action_is_pad.unsqueeze(2) & action_mask.unsqueeze(1)).to(errors.dtype)  # (N, L, 200)
    return (errors * counts).sum(dim=(1, 2)) / counts.sum(dim=(1, 2)).clamp_min(1)


def slot_noise(
    noise: Noise,
    chunk_length: int,
    action_mask: Tensor,
    purpose: Purpose = Purpose.ACTIONS,
    turn: int = 0,  # where a chunk needs such noise several times
) -> Tensor:  # (N, L, 200) float32
    """Normal noise for each step and slot; zero in the slots a robot lacks."""
    everywhere = places(chunk_length, UNIFIED_DIM, device=action_mask.device) + turn * chunk_length * UNIFIED_DIM
    if action_mask.device.type != "cpu":  # to wait for which slots there are would cost more than it saves
        return noise.normal(purpose, everywhere) * action_mask.unsqueeze(1)
    slots = action_mask.any(dim=0).nonzero().squeeze(1)  # (A,) those that any robot of the batch has: few of the 200
    drawn = noise.normal(purpose, everywhere[:, slots]) * action_mask[:, slots].unsqueeze(1)
    return drawn.new_zeros((len(action_mask), *everywhere.shape)).index_copy_(2, slots, drawn)
