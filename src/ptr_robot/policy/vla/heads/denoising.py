"""What flow matching and diffusion share: noised actions in, a squared error out, sampling that starts from noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from ptr_robot.policy.noise import Noise
from ptr_robot.policy.vla.heads.base import ActionDecoder, ActionHead, PreparedChunk, SampledChunk, slot_noise
from ptr_robot.policy.vla.heads.embedder import ActionEmbedder, ActionOutput

Network = Callable[[Tensor, Tensor], Tensor]  # (N, L, 200) at noise levels σ (N,) -> (N, L, 200), or (N, L, D)


class DenoisingHead(ActionHead):
    """An embedder of noised actions and an output of the same width; how noise is mixed in is the subclass's."""

    def __init__(
        self, width: int, initial_noise: float, *, num_time_buckets: int = 0, activation: str = "silu"
    ) -> None:
        super().__init__()
        self.initial_noise = initial_noise
        self.embedder = ActionEmbedder(width, num_time_buckets)
        self.output = ActionOutput(width, activation)

    def embed(self, actions: Tensor, action_mask: Tensor) -> Tensor:
        """The recorded chunk without noise: σ = 1."""
        clean = torch.ones(actions.shape[0], device=actions.device)
        tokens: Tensor = self.embedder(actions * action_mask.unsqueeze(1), clean)
        return tokens

    def errors(self, states: Tensor, prepared: PreparedChunk, action_mask: Tensor) -> Tensor:  # noqa: ARG002
        """Squared error of what the network is trained to give."""
        difference: Tensor = self.output(states).float() - prepared.targets
        return difference.square()

    def sample(self, decoder: ActionDecoder, action_mask: Tensor, chunk_length: int, noise: Noise) -> SampledChunk:
        """From noise to a chunk, the network asked at each step of the sampler."""
        slots = self.noised_slots(action_mask)
        return self.sample_from(slot_noise(noise, chunk_length, slots), decoder, slots, self.embedder)

    def sample_from(self, start: Tensor, decoder: ActionDecoder, slots: Tensor, embed: Network) -> SampledChunk:
        """A chunk from standard noise (N, L, 200) in ``slots``; ``embed`` makes the tokens of each step."""
        active = slots.unsqueeze(1)
        passes: list[Tensor] = []

        def network(noised: Tensor, sigmas: Tensor) -> Tensor:
            passes.append(decoder.states(embed(noised, sigmas)))
            answer: Tensor = self.output(passes[-1]).float() * active
            return answer

        actions = self.denoise(network, self.initial_noise * start)
        return SampledChunk(actions=actions, states=passes[-1])

    def noised_slots(self, action_mask: Tensor) -> Tensor:  # (N, 200) -> (N, 200)
        """The slots that noise enters and that sampling moves."""
        return action_mask

    @abstractmethod
    def denoise(self, network: Network, start: Tensor) -> Tensor:  # (N, L, 200) -> (N, L, 200)
        """The sampler."""
