"""Being-H0.5 as a policy: the reference trunk behind the sequence, the masks and the head of its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ptr_robot.errors import ConfigError
from ptr_robot.policy.being_h.adapters import add_adapters
from ptr_robot.policy.being_h.chat import IMAGE_END, IMAGE_START, STATE_END, STATE_START, ChatEncoder
from ptr_robot.policy.being_h.config import BeingHConfig
from ptr_robot.policy.being_h.head import BeingHHead
from ptr_robot.policy.being_h.images import fit_images
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import Observation
from ptr_robot.policy.vla.policy import MixturePolicy
from ptr_robot.policy.vla.sequence import Context, Part, arrange


class BeingHPolicy(MixturePolicy):
    """Markers around views and state; belief tokens directly before the actions; the mask that the config names."""

    config: BeingHConfig
    text: ChatEncoder
    head: BeingHHead

    def __init__(self, config: BeingHConfig) -> None:
        super().__init__(config, text=ChatEncoder(config), head=BeingHHead(config))
        self._recompute(config)
        if config.lora is not None:
            add_adapters(self, config.lora)

    def adopt(self, config: BeingHConfig) -> None:
        """Take over the switches of another config; what the weights were made for must be the same."""
        for name in ("chunk_length", "num_belief_tokens", "activation", "language", "gating", "lora"):
            if getattr(config, name) != getattr(self.config, name):
                raise ConfigError(f"{name} cannot change once a policy is built; load it with the other one")
        assert self.vision is not None
        assert config.vision is not None
        self.config = config
        self.text.ask(config)
        self.trunk.config = config.trunk
        self.vision.config = config.vision
        self.head.adopt(config)
        self._recompute(config)

    def _recompute(self, config: BeingHConfig) -> None:
        """The trunk looks at its config by itself; timm's tower has to be told."""
        assert self.vision is not None
        self.vision.tower.model.set_grad_checkpointing(config.trunk.checkpoint_activations)

    def context(
        self, observation: Observation, belief: Tensor | None = None, augmentation: Noise | None = None
    ) -> Context:
        """The tokens before the actions in training: a pair of markers around each view."""
        return self._arrange(observation, belief, augmentation, is_shared=False)

    def sampling_context(self, observation: Observation, belief: Tensor | None = None) -> Context:
        """The tokens before the actions at inference: one pair of markers around all views."""
        return self._arrange(observation, belief, None, is_shared=self.config.sampling_markers == "shared")

    def _arrange(
        self, observation: Observation, belief: Tensor | None, augmentation: Noise | None, *, is_shared: bool
    ) -> Context:
        device, count = observation.states.device, observation.batch_size
        opening, instruction = self.text.prompt(count, device), self.text.instructions(observation.instructions, device)
        parts = [self._text(*opening), *self._views(observation, augmentation, is_shared=is_shared)]
        state = self._state_part(observation)
        parts += [self._marker(STATE_START, observation), state, self._marker(STATE_END, observation)]
        parts.append(self._text(*instruction))
        if belief is not None:
            self.check_belief(belief, count)
            valid = torch.ones(belief.shape[:2], dtype=torch.bool, device=device)
            parts.append(Part(belief.to(state.tokens.dtype), valid, is_causal=False, is_gen=True))
        return arrange(parts)

    def _views(self, observation: Observation, augmentation: Noise | None, *, is_shared: bool) -> Iterator[Part]:
        """Image tokens and their markers; a view that a robot lacks has no markers of its own either."""
        assert self.vision is not None
        config = self.vision.config
        images = fit_images(observation.images, config.image_size, config.resize)
        tokens, valid = self.vision(images, observation.view_mask, augmentation)
        num_views = images.shape[1]
        if is_shared:
            yield self._marker(IMAGE_START, observation)
        for view, (part, is_real) in enumerate(zip(tokens.chunk(num_views, 1), valid.chunk(num_views, 1), strict=True)):
            has_view = observation.view_mask[:, view : view + 1]
            if not is_shared:
                yield self._marker(IMAGE_START, observation, has_view)
            yield Part(part, is_real, is_causal=self.config.attention == "causal")
            if not is_shared:
                yield self._marker(IMAGE_END, observation, has_view)
        if is_shared:
            yield self._marker(IMAGE_END, observation)

    def _marker(self, text: str, observation: Observation, valid: Tensor | None = None) -> Part:
        ids = self.text.marker(text, observation.batch_size, observation.states.device)
        return self._text(ids, torch.ones_like(ids, dtype=torch.bool) if valid is None else valid)

    def _text(self, ids: Tensor, valid: Tensor) -> Part:  # (N, n) each
        return Part(self.trunk.embed_text(ids), valid, is_causal=True)
