"""The reference VLA as a LeRobot policy, with PTR and its belief tokens."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

import torch
import torch.nn.functional as F
from lerobot.policies.pretrained import PreTrainedPolicy
from torch import Tensor, nn

from ptr_robot.data.robots import load_robot
from ptr_robot.data.segments.batch import UNIFIED_DIM
from ptr_robot.errors import ConfigError
from ptr_robot.lerobot.attached import STATE, PTRPolicyMixin, TapSizes
from ptr_robot.lerobot.configuration_ptr import PTRVLAConfig
from ptr_robot.lerobot.window import Batch
from ptr_robot.method import ChunkForward
from ptr_robot.policy.carried_belief import CarriedBelief
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation
from ptr_robot.policy.recursion import ChunkPredictor
from ptr_robot.policy.vla.policy import MixturePolicy
from ptr_robot.policy.vla.presets import preset


class _VLAPolicy(PreTrainedPolicy):  # type: ignore[misc]
    """LeRobot's side of the policy: its features in the unified space, its queue of actions."""

    config_class = PTRVLAConfig
    name = "vla"

    def __init__(self, config: PTRVLAConfig, **_options: Any) -> None:
        super().__init__(config)
        config.validate_features()
        self.model = MixturePolicy(_model_config(config))
        state, action = config.robot_state_feature, config.action_feature
        self._state_slots = _slots(config.robot, "state", state.shape[0] if state else 0)
        self._action_slots = _slots(config.robot, "action", action.shape[0])
        self.reset()

    def get_optim_params(self) -> Any:
        """All of them in one group."""
        return self.parameters()

    def reset(self) -> None:
        """An episode begins."""
        self._actions: deque[Tensor] = deque(maxlen=self.config.n_action_steps)
        self._belief = CarriedBelief()

    def _observation(self, frame: Batch, batch: Batch) -> Observation:
        images = self._images(frame)
        count = len(images)
        return Observation(
            images=images,
            view_mask=torch.ones(images.shape[:2], dtype=torch.bool, device=images.device),
            states=self._unified(frame[STATE], self._state_slots) if len(self._state_slots) else self._zeros(count),
            state_mask=self._mask(self._state_slots, count),
            action_mask=self._mask(self._action_slots, count),
            instructions=_instructions(batch, count),
        )

    def _images(self, frame: Batch) -> Tensor:  # (B, V, 3, H, W) uint8
        size = self.model.config.vision.image_size if self.model.config.vision else 0
        views = [frame[key] for key in self.config.image_features]
        if len({view.shape[-2:] for view in views}) > 1:
            views = [F.interpolate(view, (size, size), mode="bilinear", antialias=True) for view in views]
        return (torch.stack(views, dim=1).clamp(0, 1) * 255).round().to(torch.uint8)

    def _unified(self, values: Tensor, slots: Tensor) -> Tensor:  # (..., D) -> (..., 200)
        unified = values.new_zeros(*values.shape[:-1], UNIFIED_DIM, dtype=torch.float32)
        unified[..., slots.to(values.device)] = values.float()
        return unified

    def _zeros(self, count: int) -> Tensor:  # (N, 200)
        return torch.zeros(count, UNIFIED_DIM, device=next(self.parameters()).device)

    def _mask(self, slots: Tensor, count: int) -> Tensor:  # (N, 200) bool
        mask = self._zeros(count).bool()
        mask[:, slots.to(mask.device)] = True
        return mask

    def _noise(self, count: int) -> Noise:
        """Keys from torch's generator, which LeRobot seeds and saves."""
        return Noise(torch.randint(2**62, (count,)).to(next(self.parameters()).device))


class PTRVLAPolicy(PTRPolicyMixin, _VLAPolicy):
    """Everything that PTR reads, the reference policy hands out by itself."""

    config_class = PTRVLAConfig
    name = "ptr_vla"
    base_name = "the reference VLA"
    takes_belief = True

    def _tap_sizes(self) -> TapSizes:
        sizes = self.model.sizes
        return TapSizes(context=sizes.context_dim, action=sizes.action_dim, action_state=sizes.action_state_dim)

    def _vision_tower(self) -> nn.Module:
        tower = self.model.vision_tower
        assert tower is not None  # seen by _model_config
        return tower

    def _num_prefix_tokens(self) -> int:
        return self.model.num_prefix_tokens

    def _tower_example(self) -> Tensor:
        size = self.model.config.vision.image_size  # type: ignore[union-attr]
        return torch.zeros(1, 3, size, size)

    def _views(self, frame: Batch) -> list[tuple[Tensor, Tensor | None]]:
        return [(frame[key].clamp(0, 1), None) for key in self.config.image_features]

    def _forward_chunk(self, chunk: Batch, belief: Tensor | None) -> ChunkForward:
        observation = self._observation(chunk, chunk)
        recorded = ActionChunk(self._unified(chunk["action"], self._action_slots), action_is_pad=chunk["action_is_pad"])
        return self.model.forward_chunk(observation, recorded, belief, noise=self._noise(observation.batch_size))

    @torch.no_grad()
    def predict_action_chunk(self, batch: Batch, **_options: Any) -> Tensor:  # (B, L, D)
        """The next chunk; the belief goes on when as much was carried out as lay between the chunks of training."""
        self.eval()
        predictor = ChunkPredictor(self.model, self.ptr.method.belief)
        belief = self._belief.at_look(self.config.offset_steps)
        predictor.belief = belief.now
        observation = self._observation(batch, batch)
        prediction = predictor.predict(observation, noise=self._noise(observation.batch_size))
        self._belief = belief.after_look(predictor.belief, self.config.n_action_steps)
        return prediction.actions[..., self._action_slots.to(prediction.actions.device)]

    def predict_from(self, belief: Tensor | None, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """A chunk given z_t, and z_{t+1}."""
        self.reset()
        self._belief = CarriedBelief(belief)
        return self.predict_action_chunk(batch), self._belief.following

    @torch.no_grad()
    def select_action(self, batch: Batch, **options: Any) -> Tensor:  # (B, D)
        """The next action, from a chunk predicted when the last one was used up."""
        if not self._actions:
            chunk = self.predict_action_chunk(batch, **options)[:, : self.config.n_action_steps]
            self._actions.extend(chunk.transpose(0, 1))
        return self._actions.popleft()


def _model_config(config: PTRVLAConfig) -> Any:
    chosen = preset(config.preset)
    if chosen.vision is None:
        raise ConfigError(f"policy.preset is {config.preset!r}, which looks at no images; PTR's targets need them")
    belief = config.ptr.belief
    return dataclasses.replace(
        chosen,
        chunk_length=config.chunk_size,
        num_belief_tokens=belief.num_tokens if belief.enabled else 0,
        context_sees_state=config.context_sees_state,
    )


def _slots(robot: str | None, kind: str, size: int) -> Tensor:  # (D,) int64
    """A known robot's places in the unified space; without one, the first places in the dataset's order."""
    if robot is None:
        if size > UNIFIED_DIM:
            raise ConfigError(f"the {kind} has {size} dimensions; the unified space has {UNIFIED_DIM}")
        return torch.arange(size)
    slots = getattr(load_robot(robot), kind)
    slots.check_size(kind, size)
    places = torch.from_numpy(slots.places)
    if (places < 0).any():
        raise ConfigError(f"robot {robot!r} leaves dimensions of its {kind} out; ptr_vla needs a place for each")
    return places


def _instructions(batch: Batch, count: int) -> tuple[str, ...]:
    tasks = batch.get("task", "")
    return (tasks,) * count if isinstance(tasks, str) else tuple(tasks)
