"""Diffusion: DDPM in training and DDIM in sampling, both by diffusers' schedulers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ptr_robot.errors import require
from ptr_robot.policy.noise import Noise, Purpose, places
from ptr_robot.policy.vla.config import DiffusionConfig
from ptr_robot.policy.vla.heads.base import PreparedChunk, slot_noise
from ptr_robot.policy.vla.heads.denoising import DenoisingHead, Network


class DiffusionHead(DenoisingHead):
    """Noised actions in, the schedule's prediction target out."""

    def __init__(self, config: DiffusionConfig, width: int, activation: str = "silu") -> None:
        super().__init__(width, config.initial_noise, activation=activation)
        self.config = config
        self._scheduler = _create_scheduler("ddpm", config)

    def prepare(self, actions: Tensor, action_mask: Tensor, noise: Noise) -> PreparedChunk:
        """Noise the chunk to a uniformly drawn step of the schedule."""
        actions = actions * action_mask.unsqueeze(1)
        steps = (noise.uniform(Purpose.TIME, places()) * self.config.num_train_steps).long()  # (N,)
        epsilon = slot_noise(noise, actions.shape[1], action_mask)
        noised = self._scheduler.add_noise(actions, epsilon, steps)
        tokens = self.embedder(noised, self._levels(steps))
        return PreparedChunk(tokens=tokens, targets=self._targets(actions, epsilon, steps))

    def denoise(self, network: Network, start: Tensor) -> Tensor:
        """Deterministic DDIM."""

        def prediction(sample: Tensor, step: Tensor) -> Tensor:
            return network(sample, self._levels(step.to(sample.device).expand(sample.shape[0])))

        return denoise(prediction, start, self.config)

    def _levels(self, steps: Tensor) -> Tensor:  # (N,) int64 -> (N,) σ
        """Steps of the schedule on the embedder's scale, where 1 is clean and 0 is the noisiest step."""
        return 1 - (steps + 1) / self.config.num_train_steps

    def _targets(self, actions: Tensor, noise: Tensor, steps: Tensor) -> Tensor:
        if self.config.prediction == "epsilon":
            return noise
        if self.config.prediction == "sample":
            return actions
        velocity: Tensor = self._scheduler.get_velocity(actions, noise, steps)
        return velocity


def denoise(
    prediction: Callable[[Tensor, Tensor], Tensor], start: Tensor, config: DiffusionConfig
) -> Tensor:  # like start
    """DDIM from pure noise, over evenly spaced steps of the training schedule, its last one included."""
    scheduler = _create_scheduler("ddim", config)
    scheduler.set_timesteps(config.num_sampling_steps)
    sample = start
    for step in scheduler.timesteps:
        sample = scheduler.step(prediction(sample, step), step, sample).prev_sample
    return sample


def _create_scheduler(kind: str, config: DiffusionConfig) -> Any:
    module = require(f"diffusers.schedulers.scheduling_{kind}", "lerobot")
    spacing = {"timestep_spacing": "trailing"} if kind == "ddim" else {}
    return getattr(module, f"{kind.upper()}Scheduler")(
        num_train_timesteps=config.num_train_steps,
        beta_schedule=config.beta_schedule,
        prediction_type=config.prediction,
        clip_sample=False,  # normalised actions have no fixed bound
        **spacing,
    )
