"""Flow matching (Eq. fm_loss): learn the velocity from noise (σ = 0) to the action (σ = 1)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ptr_robot.policy.config import FlowConfig
from ptr_robot.policy.heads.base import ActionDecoder, ActionHead, PreparedChunk, SampledChunk, slot_noise
from ptr_robot.policy.heads.embedder import ActionEmbedder, ActionOutput
from ptr_robot.policy.noise import Noise, Purpose, places


class FlowHead(ActionHead):
    """Noised actions in, velocities out; a few Euler steps in sampling."""

    def __init__(self, config: FlowConfig, width: int) -> None:
        super().__init__()
        self.config = config
        self.embedder = ActionEmbedder(width)
        self.output = ActionOutput(width)

    def embed(self, actions: Tensor, action_mask: Tensor) -> Tensor:
        """The recorded chunk at σ = 1."""
        clean = torch.ones(actions.shape[0], device=actions.device)
        tokens: Tensor = self.embedder(actions * action_mask.unsqueeze(1), clean)
        return tokens

    def prepare(self, actions: Tensor, action_mask: Tensor, noise: Noise) -> PreparedChunk:
        """x = σ a + (1 − σ) ε, to be answered by a − ε."""
        active = action_mask.unsqueeze(1)
        actions = actions * active
        sigmas = draw_sigmas(noise, self.config)
        epsilon = slot_noise(noise, actions.shape[1], action_mask)
        weight = sigmas.view(-1, 1, 1)
        tokens = self.embedder(weight * actions + (1 - weight) * epsilon, sigmas)
        return PreparedChunk(tokens=tokens, targets=actions - epsilon)

    def errors(self, states: Tensor, prepared: PreparedChunk, action_mask: Tensor) -> Tensor:  # noqa: ARG002
        """Squared error of the velocity."""
        difference: Tensor = self.output(states).float() - prepared.targets
        return difference.square()

    def sample(self, decoder: ActionDecoder, action_mask: Tensor, chunk_length: int, noise: Noise) -> SampledChunk:
        """Integrate the velocity from noise to a chunk."""
        active = action_mask.unsqueeze(1)
        start = self.config.initial_noise * slot_noise(noise, chunk_length, action_mask)
        passes: list[Tensor] = []

        def velocity(sample: Tensor, sigma: float) -> Tensor:
            tokens = self.embedder(sample, torch.full((sample.shape[0],), sigma, device=sample.device))
            passes.append(decoder.states(tokens))
            answer: Tensor = self.output(passes[-1]).float() * active
            return answer

        actions = integrate(velocity, start, self.config.num_sampling_steps)
        return SampledChunk(actions=actions, states=passes[-1])


def draw_sigmas(noise: Noise, config: FlowConfig) -> Tensor:  # (N,)
    """σ = (s − u)/s with u ~ Beta(a, 1), by inversion: P(u ≤ x) = x^a. Skewed towards noise."""
    uniform = noise.uniform(Purpose.TIME, places())
    return (config.noise_limit - uniform ** (1 / config.beta_alpha)) / config.noise_limit


def integrate(velocity: Callable[[Tensor, float], Tensor], start: Tensor, num_steps: int) -> Tensor:
    """Euler steps of equal size from σ = 0 to σ = 1."""
    sample = start
    for step in range(num_steps):
        sample = sample + velocity(sample, step / num_steps) / num_steps
    return sample
