"""Being-H0.5's flow head: the reference head with its time buckets and noise in every slot, and MPG where asked for."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from ptr_robot.policy.being_h.config import BeingHConfig, GatingConfig
from ptr_robot.policy.being_h.gating import Gating
from ptr_robot.policy.noise import Noise, Purpose, places
from ptr_robot.policy.vla.heads.base import ActionDecoder, PreparedChunk, SampledChunk, slot_noise
from ptr_robot.policy.vla.heads.flow import FlowHead


class BeingHHead(FlowHead):
    """Velocities as the checkpoint has learnt them."""

    def __init__(self, config: BeingHConfig) -> None:
        context, action = config.trunk.context.width, config.trunk.action.width
        super().__init__(config.flow, action, config.activation)
        self.adopt(config)
        self.gating = Gating(config.gating, context, action) if config.gating else None

    def adopt(self, config: BeingHConfig) -> None:
        """The mask of actions and the flow's settings."""
        self.is_causal = config.attention == "causal"
        self.config = config.flow

    def prepare(self, actions: Tensor, action_mask: Tensor, noise: Noise) -> PreparedChunk:
        """Noised actions and their velocities; MPG compares them with the recorded chunk."""
        prepared = super().prepare(actions, action_mask, noise)
        if self.gating is None:
            return prepared
        clean = self._clean_tokens(actions * action_mask.unsqueeze(1))
        directions = draw_directions(noise, self.gating.config, self.gating.observe.in_features, turn=0)
        return PreparedChunk(self.gating(prepared.tokens, clean, directions), prepared.targets)

    def sample(self, decoder: ActionDecoder, action_mask: Tensor, chunk_length: int, noise: Noise) -> SampledChunk:
        """A chunk; with MPG it is the model of further samplings, each from fresh noise."""
        sampled = super().sample(decoder, action_mask, chunk_length, noise)
        if self.gating is None:
            return sampled
        for turn in range(self.gating.config.num_refinements):
            sampled = self._refine(self.gating, sampled, turn, decoder, action_mask, noise)
        return sampled

    def _refine(
        self,
        gating: Gating,
        sampled: SampledChunk,
        turn: int,
        decoder: ActionDecoder,
        action_mask: Tensor,
        noise: Noise,
    ) -> SampledChunk:
        clean = self._clean_tokens(sampled.actions)
        turns = itertools.count(turn * self.config.num_sampling_steps)

        def embed(noised: Tensor, sigmas: Tensor) -> Tensor:
            directions = draw_directions(noise, gating.config, gating.observe.in_features, next(turns))
            guided: Tensor = gating(self.embedder(noised, sigmas), clean, directions)
            return guided

        slots, length = self.noised_slots(action_mask), sampled.actions.shape[1]
        start = slot_noise(noise, length, slots, Purpose.REFINEMENT, turn)
        return self.sample_from(start, decoder, slots, embed)

    def _clean_tokens(self, actions: Tensor) -> Tensor:  # (N, L, 200) -> (N, L, D)
        """Tokens that MPG compares with: at bucket 0, where the checkpoint's own training has them."""
        tokens: Tensor = self.embedder(actions, torch.zeros(actions.shape[0], device=actions.device))
        return tokens


def draw_directions(noise: Noise, config: GatingConfig, width: int, turn: int) -> Tensor:  # (N, K, width)
    """Random directions of the ``turn``-th use of the gate; they need not have unit length."""
    where = places(config.num_directions, width, device=noise.keys.device)
    return noise.normal(Purpose.DIRECTIONS, where + turn * where.numel())
