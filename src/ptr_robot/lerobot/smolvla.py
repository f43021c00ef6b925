"""SmolVLA with PTR, and with belief tokens where they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
from torch import Tensor, nn

from ptr_robot.errors import ConfigError
from ptr_robot.lerobot.attached import PTRPolicyMixin, TapSizes
from ptr_robot.lerobot.compat import counts_padded_action_dims
from ptr_robot.lerobot.configuration_ptr import PTRSmolVLAConfig
from ptr_robot.lerobot.taps import captured_inputs, captured_outputs, masked_mean, recorded_calls, sample_losses
from ptr_robot.lerobot.window import Batch
from ptr_robot.method import ChunkForward
from ptr_robot.policy.carried_belief import CarriedBelief

Prefix = tuple[Tensor, Tensor, Tensor]  # embeddings (B, P, D), real positions (B, P), starts of attention blocks (B, P)


class PTRSmolVLAPolicy(PTRPolicyMixin, SmolVLAPolicy):  # type: ignore[misc]
    """h_t: the VLM's last states on images and text; E_t: ``action_in_proj``; C_t: what ``action_out_proj`` reads."""

    config_class = PTRSmolVLAConfig
    name = "ptr_smolvla"
    base_name = "SmolVLA"
    takes_belief = True

    def __init__(self, config: Any, **options: Any) -> None:
        if config.ptr.belief.enabled and config.compile_model:
            raise ConfigError("belief tokens need policy.compile_model=false: a compiled model takes no other context")
        super().__init__(config, **options)

    def reset(self) -> None:
        """An episode begins: what earlier chunks left behind is forgotten."""
        super().reset()
        self._belief = CarriedBelief()

    def _tap_sizes(self) -> TapSizes:
        expert = self.model.vlm_with_expert
        width = expert.expert_hidden_size
        return TapSizes(context=expert.config.text_config.hidden_size, action=width, action_state=width)

    def _extra_heads(self) -> dict[str, nn.Module]:
        if not self.config.ptr.belief.enabled:
            return {}
        sizes = self._tap_sizes()
        return {"belief_in": nn.Linear(sizes.action, sizes.context)}

    def _vision_tower(self) -> nn.Module:
        tower: nn.Module = self.model.vlm_with_expert.get_vlm_model().vision_model
        return tower

    def _tower_example(self) -> Tensor:  # (1, 3, S, S)
        tower: Any = self._vision_tower()
        size = tower.config.image_size
        return torch.zeros(1, 3, size, size, device=next(tower.parameters()).device)

    def _views(self, frame: Batch) -> list[tuple[Tensor, Tensor | None]]:
        return list(zip(*self.prepare_images(frame), strict=True))

    def _forward_chunk(self, chunk: Batch, belief: Tensor | None) -> ChunkForward:
        model = self.model
        copied = {
            key: chunk[key].clone() for key in ("observation.state", "action")
        }  # SmolVLA may change them in place
        with (
            self._believing(belief),
            recorded_calls(model, "embed_prefix") as prefixes,
            recorded_calls(model, "forward") as passes,
            captured_outputs(model.vlm_with_expert.get_vlm_model().text_model.norm) as contexts,
            captured_inputs(model.action_out_proj) as states,
        ):
            SmolVLAPolicy.forward(self, chunk | copied)  # not super(): that is the mixin's
        errors, actions, is_real = passes[0].result, passes[0].arguments[5], ~chunk["action_is_pad"]
        if not counts_padded_action_dims():
            errors = errors[:, :, : self.config.action_feature.shape[0]]
        return ChunkForward(
            # SmolVLA 0.4 looks for the padding under a misspelt key and never finds it; here it is masked.
            action_losses=sample_losses(errors, is_real, over_valid_steps=True),
            contexts=masked_mean(contexts[0], _context_mask(prefixes[0].result, belief)).float(),
            action_tokens=model.action_in_proj(actions),
            action_states=states[0][0][0],
            action_is_pad=~is_real,
        )

    @contextmanager
    def _believing(self, belief: Tensor | None) -> Iterator[None]:  # (B, M, Da)
        """While the context lasts, belief tokens stand before the state's: they have not read it, it reads them."""
        if belief is None:
            yield
            return
        model: Any = self.model
        original = model.embed_prefix

        def embed_prefix(*arguments: Any, **options: Any) -> Prefix:
            embeddings, is_real, starts = original(*arguments, **options)
            tokens = self.ptr.belief_in(belief).to(embeddings.dtype)
            ones = is_real.new_ones(tokens.shape[:2])
            first = torch.zeros_like(ones, dtype=starts.dtype)
            first[:, 0] = True
            place = int(starts[0].long().argmax())  # of the state, whose token begins the first block of its own
            inserted = ((embeddings, tokens), (is_real, ones), (starts, first))
            parts = [torch.cat([old[:, :place], new, old[:, place:]], dim=1) for old, new in inserted]
            return parts[0], parts[1], parts[2]

        vars(model)["embed_prefix"] = embed_prefix
        try:
            yield
        finally:
            del vars(model)["embed_prefix"]

    def predict_from(self, belief: Tensor | None, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """A chunk given z_t, and z_{t+1}."""
        self.reset()
        self._belief = CarriedBelief(belief)
        return self.predict_action_chunk(batch), self._belief.following

    def _get_action_chunk(self, batch: Batch, noise: Tensor | None = None, **options: Any) -> Tensor:
        """The base policy's prediction given z_t, after which z_{t+1} waits for its time."""
        method = self.ptr.method
        if method.belief is None:
            return super()._get_action_chunk(batch, noise, **options)  # type: ignore[no-any-return]
        count = batch["observation.state"].shape[0]
        carried = self._belief.at_look(self.config.offset_steps)
        belief = method.initial_belief(count) if carried.now is None else carried.now
        if belief is not None and belief.shape[0] != count:
            raise ConfigError(
                f"the last chunk was for {belief.shape[0]} robots and this one is for {count}; call reset() between"
            )
        model = self.model
        with (
            self._believing(belief),
            recorded_calls(model, "sample_actions") as sampled,
            captured_inputs(model.action_out_proj) as states,
        ):
            actions: Tensor = super()._get_action_chunk(batch, noise, **options)
        chunk = ChunkForward(
            action_losses=actions.new_zeros(count),
            contexts=actions.new_zeros(count, 1),
            action_tokens=model.action_in_proj(sampled[0].result),
            action_states=states[-1][0][0],
        )
        self._belief = carried.after_look(method.next_belief(chunk), self.config.n_action_steps)
        return actions


def _context_mask(prefix: Prefix, belief: Tensor | None) -> Tensor:  # (B, P) bool
    """Images and text are the first attention block, belief the next; then comes the state, which is left out."""
    _, is_real, starts = prefix
    num_blocks = 1 if belief is None else 2
    return is_real & (starts.long().cumsum(dim=1) < num_blocks)
