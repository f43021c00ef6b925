"""Flow matching (Eq. fm_loss): learn the velocity from noise (σ = 0) to the action (σ = 1)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ptr_robot.policy.noise import Noise, Purpose, places
from ptr_robot.policy.vla.config import FlowConfig
from ptr_robot.policy.vla.heads.base import PreparedChunk, slot_noise
from ptr_robot.policy.vla.heads.denoising import DenoisingHead, Network


class FlowHead(DenoisingHead):
    """Noised actions in, velocities out; a few Euler steps in sampling."""

    def __init__(self, config: FlowConfig, width: int, activation: str = "silu") -> None:
        super().__init__(width, config.initial_noise, num_time_buckets=config.num_time_buckets, activation=activation)
        self.config = config

    def noised_slots(self, action_mask: Tensor) -> Tensor:
        """Those that the robot has, or every one."""
        return torch.ones_like(action_mask) if self.config.every_slot else action_mask

    def prepare(self, actions: Tensor, action_mask: Tensor, noise: Noise) -> PreparedChunk:
        """x = σ a + (1 − σ) ε, to be answered by a − ε."""
        actions = actions * action_mask.unsqueeze(1)
        sigmas = draw_sigmas(noise, self.config)
        epsilon = slot_noise(noise, actions.shape[1], self.noised_slots(action_mask))
        weight = sigmas.view(-1, 1, 1)
        tokens = self.embedder(weight * actions + (1 - weight) * epsilon, sigmas)
        return PreparedChunk(tokens=tokens, targets=actions - epsilon)

    def denoise(self, network: Network, start: Tensor) -> Tensor:
        """Integrate the velocity."""

        def velocity(sample: Tensor, sigma: float) -> Tensor:
            return network(sample, sample.new_full((sample.shape[0],), sigma))

        return integrate(velocity, start, self.config.num_sampling_steps)


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
