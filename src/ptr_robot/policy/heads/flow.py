"""Flow matching (Eq. fm_loss): learn the velocity from noise (σ = 0) to the action (σ = 1)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ptr_robot.data.batch import UNIFIED_DIM
from ptr_robot.policy.config import FlowConfig
from ptr_robot.policy.heads.base import ActionDecoder, ActionHead, PreparedChunk, SampledChunk, standard_noise
from ptr_robot.policy.heads.embedder import ActionEmbedder, ActionOutput


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

    def prepare(self, actions: Tensor, action_mask: Tensor, generator: torch.Generator) -> PreparedChunk:
        """x = σ a + (1 − σ) ε, to be answered by a − ε."""
        active = action_mask.unsqueeze(1)
        actions = actions * active
        sigmas = draw_sigmas(actions.shape[0], self.config, generator).to(actions.device)
        noise = standard_noise(actions.shape, generator, like=actions) * active
        weight = sigmas.view(-1, 1, 1)
        tokens = self.embedder(weight * actions + (1 - weight) * noise, sigmas)
        return PreparedChunk(tokens=tokens, targets=actions - noise)

    def errors(self, states: Tensor, prepared: PreparedChunk, action_mask: Tensor) -> Tensor:  # noqa: ARG002
        """Squared error of the velocity."""
        difference: Tensor = self.output(states).float() - prepared.targets
        return difference.square()

    def sample(
        self, decoder: ActionDecoder, action_mask: Tensor, chunk_length: int, generator: torch.Generator
    ) -> SampledChunk:
        """Integrate the velocity from noise to a chunk."""
        active = action_mask.unsqueeze(1)
        shape = (action_mask.shape[0], chunk_length, UNIFIED_DIM)
        noise = self.config.initial_noise * standard_noise(shape, generator, like=active) * active
        passes: list[Tensor] = []

        def velocity(sample: Tensor, sigma: float) -> Tensor:
            tokens = self.embedder(sample, torch.full((shape[0],), sigma, device=sample.device))
            passes.append(decoder.states(tokens))
            answer: Tensor = self.output(passes[-1]).float() * active
            return answer

        actions = integrate(velocity, noise, self.config.num_sampling_steps)
        return SampledChunk(actions=actions, states=passes[-1])


def draw_sigmas(count: int, config: FlowConfig, generator: torch.Generator) -> Tensor:  # (count,)
    """σ = (s − u)/s with u ~ Beta(a, 1), by inversion: P(u ≤ x) = x^a. Skewed towards noise."""
    uniform = torch.rand(count, generator=generator, device=generator.device)
    return (config.noise_limit - uniform ** (1 / config.beta_alpha)) / config.noise_limit


def integrate(velocity: Callable[[Tensor, float], Tensor], start: Tensor, num_steps: int) -> Tensor:
    """Euler steps of equal size from σ = 0 to σ = 1."""
    sample = start
    for step in range(num_steps):
        sample = sample + velocity(sample, step / num_steps) / num_steps
    return sample
