"""Diffusion Policy with PTR."""

from __future__ import annotations

import logging
from typing import Any

import torch
import torch.nn.functional as F
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
from torch import Tensor, nn

from ptr_robot.lerobot.attached import STATE, PTRPolicyMixin, TapSizes
from ptr_robot.lerobot.compat import divides_by_valid_steps, mend_episode_sampler
from ptr_robot.lerobot.configuration_ptr import PTRDiffusionConfig
from ptr_robot.lerobot.taps import ChunkEmbedder, captured_inputs, captured_outputs, recorded_calls, sample_losses
from ptr_robot.lerobot.window import Batch
from ptr_robot.method import ChunkForward

LAYER3 = "6"  # of the backbone, an nn.Sequential of a ResNet's children


class PTRDiffusionPolicy(PTRPolicyMixin, DiffusionPolicy):  # type: ignore[misc]
    """h_t: the images' part of the U-Net's conditioning; E_t: PTR's own embedding; C_t: the U-Net's last layer."""

    config_class = PTRDiffusionConfig
    name = "ptr_diffusion"
    base_name = "Diffusion Policy"

    def __init__(self, config: Any, dataset_meta: Any = None, **options: Any) -> None:
        super().__init__(config, dataset_meta=dataset_meta, **options)
        if dataset_meta is not None:
            mend_episode_sampler()
        if config.use_separate_rgb_encoder_per_camera:
            logging.info("PTR: targets of all cameras are made with the first camera's encoder")

    def _tap_sizes(self) -> TapSizes:
        encoder = self._encoder
        env_state = self.config.env_state_feature
        per_frame = encoder.feature_dim * len(self.config.image_features) + (env_state.shape[0] if env_state else 0)
        return TapSizes(
            context=per_frame * self.config.n_obs_steps,
            action=self.config.diffusion_step_embed_dim,
            action_state=self.config.down_dims[0],
        )

    def _extra_heads(self) -> dict[str, nn.Module]:
        action_dim = self.config.action_feature.shape[0]
        return {"embedder": ChunkEmbedder(self.config.horizon, action_dim, self.config.diffusion_step_embed_dim)}

    @property
    def _encoder(self) -> Any:
        encoder = self.diffusion.rgb_encoder
        return encoder[0] if isinstance(encoder, nn.ModuleList) else encoder

    def _vision_tower(self) -> nn.Module:
        tower: nn.Module = self._encoder.backbone
        return tower

    def _tower_example(self) -> Tensor:  # (1, 3, H, W)
        _, height, width = next(iter(self.config.image_features.values())).shape
        return self._preprocess(torch.zeros(1, 3, height, width))

    def _default_cut(self) -> str:
        return LAYER3

    def _views(self, frame: Batch) -> list[tuple[Tensor, Tensor | None]]:
        return [(self._preprocess(frame[key]), None) for key in self.config.image_features]

    def _preprocess(self, images: Tensor) -> Tensor:  # (B, 3, H, W)
        """As the encoder does outside of training: the crop is the central one."""
        encoder = self._encoder
        resize = getattr(encoder, "resize", None)
        if resize is not None:
            images = resize(images)
        return encoder.center_crop(images) if encoder.do_crop else images

    def _forward_chunk(self, chunk: Batch, belief: Tensor | None) -> ChunkForward:  # noqa: ARG002
        cameras = [chunk[key] for key in self.config.image_features]
        chunk = chunk | {"observation.images": torch.stack(cameras, dim=-4)}
        model, actions = self.diffusion, chunk["action"]
        with (
            captured_inputs(model.unet) as inputs,
            captured_outputs(model.unet) as predictions,
            captured_outputs(model.unet.final_conv[0]) as last,
            recorded_calls(model.noise_scheduler, "add_noise") as noised,
        ):
            model.compute_loss(chunk)
        target = noised[0].arguments[1] if self.config.prediction_type == "epsilon" else actions
        errors = F.mse_loss(predictions[0], target, reduction="none")
        is_real = ~chunk["action_is_pad"]
        is_masked = self.config.do_mask_loss_for_padding
        return ChunkForward(
            action_losses=sample_losses(
                errors,
                is_real if is_masked else torch.ones_like(is_real),
                over_valid_steps=divides_by_valid_steps(),
            ),
            contexts=self._contexts(inputs[0][1]["global_cond"], chunk[STATE]),
            action_tokens=self.ptr.embedder(actions),
            action_states=last[0].transpose(1, 2) if last else None,  # a compiled U-Net shows no layers
            action_is_pad=~is_real,
        )

    def _contexts(self, conditioning: Tensor, states: Tensor) -> Tensor:  # (B, n F), (B, n, S) -> (B, n (F - S))
        """The conditioning of each frame begins with its state, which is not part of h_t."""
        frames = conditioning.view(*states.shape[:2], -1)
        return frames[..., states.shape[-1] :].flatten(1)
