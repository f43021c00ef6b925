"""ACT with PTR."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from lerobot.policies.act.modeling_act import ACTPolicy
from torch import Tensor, nn

from ptr_robot.lerobot.attached import PTRPolicyMixin, TapSizes
from ptr_robot.lerobot.compat import divides_by_valid_steps
from ptr_robot.lerobot.configuration_ptr import PTRACTConfig
from ptr_robot.lerobot.taps import ChunkEmbedder, captured_inputs, captured_outputs, sample_losses
from ptr_robot.lerobot.window import Batch
from ptr_robot.method import ChunkForward

EXAMPLE_PIXELS = 64


class PTRACTPolicy(PTRPolicyMixin, ACTPolicy):  # type: ignore[misc]
    """h_t: the encoder over the image tokens, latent and state at zero; C_t: what the action head reads."""

    config_class = PTRACTConfig
    name = "ptr_act"
    base_name = "ACT"

    def _tap_sizes(self) -> TapSizes:
        width = self.config.dim_model
        return TapSizes(context=width, action=width, action_state=width)

    def _extra_heads(self) -> dict[str, nn.Module]:
        if self.config.use_vae:
            return {}
        return {
            "embedder": ChunkEmbedder(
                self.config.chunk_size, self.config.action_feature.shape[0], self.config.dim_model
            )
        }

    def _vision_tower(self) -> nn.Module:
        tower: nn.Module = self.model.backbone
        return tower

    def _tower_example(self) -> Tensor:  # (1, 3, 64, 64)
        return torch.zeros(1, 3, EXAMPLE_PIXELS, EXAMPLE_PIXELS)

    def _default_cut(self) -> str:
        return "layer3"

    def _views(self, frame: Batch) -> list[tuple[Tensor, Tensor | None]]:
        return [(frame[key], None) for key in self.config.image_features]

    def _forward_chunk(self, chunk: Batch, belief: Tensor | None) -> ChunkForward:  # noqa: ARG002
        chunk = chunk | {"observation.images": [chunk[key] for key in self.config.image_features]}
        model, is_pad = self.model, chunk["action_is_pad"]
        with (
            captured_inputs(model.encoder) as inputs,
            captured_outputs(model.encoder) as outputs,
            captured_inputs(model.action_head) as decoded,
        ):
            actions, (mean, log_variance) = model(chunk)
        errors = F.l1_loss(chunk["action"], actions, reduction="none")
        losses = sample_losses(errors, ~is_pad, over_valid_steps=divides_by_valid_steps())
        if mean is not None:
            divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(dim=-1)
            losses = losses + self.config.kl_weight * divergence
        return ChunkForward(
            action_losses=losses,
            contexts=self._contexts(inputs[0], outputs[0]),
            action_tokens=self._embed(chunk["action"]),
            action_states=decoded[0][0][0],
            action_is_pad=is_pad,
        )

    def _embed(self, actions: Tensor) -> Tensor:  # (B, L, D)
        embedder = self.model.vae_encoder_action_input_proj if self.config.use_vae else self.ptr.embedder
        tokens: Tensor = embedder(actions)
        return tokens

    def _contexts(self, call: tuple[Any, Any], encoded: Tensor) -> Tensor:  # (B, D)
        """Every token of the encoder attends to the latent, which knows the recorded actions, and to the state.

        So the encoder runs once more with the latent that ACT uses at inference, zero, and with the mean state, which
        is zero, too. It does so without dropout: the policy's random numbers stay what they would be without PTR.
        Without a scorer nobody reads h_t.
        """
        config = self.config
        num_vectors = 1 + bool(config.robot_state_feature) + bool(config.env_state_feature)
        if self.ptr.method.scorer is not None:
            (tokens, *rest), keywords = call
            blind = torch.cat([self._without_latent_and_state(tokens), tokens[1 + bool(config.robot_state_feature) :]])
            encoder, was_training = self.model.encoder, self.model.encoder.training
            is_learning = torch.is_grad_enabled() and not self.ptr.method.config.scorer.is_detached
            encoder.eval()
            try:
                with torch.set_grad_enabled(is_learning):
                    encoded = encoder(blind, *rest, **keywords)
            finally:
                encoder.train(was_training)
        return encoded[num_vectors:].mean(dim=0)

    def _without_latent_and_state(self, tokens: Tensor) -> Tensor:  # (S, B, D) -> (1 or 2, B, D)
        """The tokens of a latent and, where the policy is given one, of a state that are zero."""
        model, state = self.model, self.config.robot_state_feature
        vectors = [model.encoder_latent_input_proj(tokens.new_zeros(tokens.shape[1], self.config.latent_dim))]
        if state:
            vectors.append(model.encoder_robot_state_input_proj(tokens.new_zeros(tokens.shape[1], state.shape[0])))
        return torch.stack(vectors)
