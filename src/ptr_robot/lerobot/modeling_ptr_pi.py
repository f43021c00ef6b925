"""π0 and π0.5 with PTR."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lerobot.policies.pi0.modeling_pi0 import PI0Policy
from lerobot.policies.pi05.modeling_pi05 import PI05Policy
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn

from ptr_robot.lerobot.attached import PTRPolicyMixin, TapSizes
from ptr_robot.lerobot.configuration_ptr_pi import PTRPI0Config, PTRPI05Config
from ptr_robot.lerobot.loading import HEADS, load_with_fresh_heads
from ptr_robot.lerobot.processor_ptr_pi import hide_later_states
from ptr_robot.lerobot.taps import captured_inputs, masked_mean, recorded_calls, sample_losses
from ptr_robot.lerobot.window import Batch
from ptr_robot.method import ChunkForward

MODEL = "model."
NUM_LATER_ARGUMENTS = 3  # of the model's pass: actions, noise and time come last


class _PTRPiMixin(PTRPolicyMixin):
    """h_t: the VLM's last states on images and prompt; E_t: ``action_in_proj``; C_t: what ``action_out_proj`` reads."""

    tower_takes_any_size = False
    base_class: type[Any]
    model: Any

    def __init__(self, config: Any, **options: Any) -> None:
        hide_later_states()
        super().__init__(config, **options)

    @classmethod
    def from_pretrained(cls, *arguments: Any, **options: Any) -> Any:
        """As of every other policy: π0's own puts all names under ``model.``, PTR's too, and goes on without a file."""
        return PreTrainedPolicy.from_pretrained.__func__(cls, *arguments, **options)

    @classmethod
    def _load_as_safetensor(cls, model: Any, model_file: str, map_location: str, strict: bool) -> Any:  # noqa: ARG003
        return load_with_fresh_heads(model, Path(model_file), strict=strict, rename=model.with_current_names)

    def with_current_names(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of a checkpoint under the names they have here; openpi's conversions have older ones."""
        own = {name: tensor for name, tensor in tensors.items() if name.startswith(HEADS)}
        others = {name: tensor for name, tensor in tensors.items() if name not in own}
        fixed = self._fix_pytorch_state_dict_keys(others, self.config)  # type: ignore[attr-defined]
        return {name if name.startswith(MODEL) else MODEL + name: tensor for name, tensor in fixed.items()} | own

    def _tap_sizes(self) -> TapSizes:
        width = self.model.action_in_proj.out_features
        text = self.model.paligemma_with_expert.paligemma.config.text_config
        return TapSizes(context=text.hidden_size, action=width, action_state=width)

    def _vision_tower(self) -> nn.Module:
        tower: nn.Module = self.model.paligemma_with_expert.paligemma.model.vision_tower
        return tower

    def _tower_example(self) -> Tensor:  # (1, 3, H, W)
        return torch.zeros(1, 3, *self.config.image_resolution)

    def _views(self, frame: Batch) -> list[tuple[Tensor, Tensor | None]]:
        return list(zip(*self._preprocess_images(frame), strict=True))  # type: ignore[attr-defined]

    def _forward_chunk(self, chunk: Batch, belief: Tensor | None) -> ChunkForward:  # noqa: ARG002
        model = self.model
        with (
            recorded_calls(model, "embed_prefix") as prefixes,
            recorded_calls(model, "forward") as passes,
            recorded_calls(model.paligemma_with_expert, "forward") as streams,
            captured_inputs(model.action_out_proj) as states,
        ):
            self.base_class.forward(self, chunk)  # not super(): that is the mixin's
        (contexts, _), _ = streams[0].result
        actions, is_real = passes[0].arguments[-NUM_LATER_ARGUMENTS], ~chunk["action_is_pad"]
        errors = passes[0].result[:, :, : self.config.action_feature.shape[0]]
        return ChunkForward(
            # π0's own loss counts the steps past an episode's end; here they are masked.
            action_losses=sample_losses(errors, is_real, over_valid_steps=True),
            contexts=masked_mean(contexts, prefixes[0].result[1]).float(),
            action_tokens=model.action_in_proj(actions),
            action_states=states[0][0][0],
            action_is_pad=~is_real,
        )


class PTRPI0Policy(_PTRPiMixin, PI0Policy):  # type: ignore[misc]
    """π0 with PTR."""

    config_class = PTRPI0Config
    name = "ptr_pi0"
    base_name = "π0"
    base_class = PI0Policy


class PTRPI05Policy(_PTRPiMixin, PI05Policy):  # type: ignore[misc]
    """π0.5 with PTR; its prompt holds the state, so h_t does too."""

    config_class = PTRPI05Config
    name = "ptr_pi05"
    base_name = "π0.5"
    base_class = PI05Policy
