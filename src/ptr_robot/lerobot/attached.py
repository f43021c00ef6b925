"""PTR beside a LeRobot policy: a mixin that turns any chunk policy into one that ``lerobot-train`` trains with PTR.

Everything of PTR is under the one name ``ptr`` (its heads, queue, EMA tower and step count), so that LeRobot's
checkpoints hold it, and a base checkpoint, which has none of it, loads as it is.
"""

from __future__ import annotations

import dataclasses
import logging
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ptr_robot.errors import ConfigError
from ptr_robot.lerobot.dataset_facts import DatasetFacts, check_consequences, frame_weights
from ptr_robot.lerobot.frame_weights import FrameWeights
from ptr_robot.lerobot.loading import load_with_fresh_heads
from ptr_robot.lerobot.settings import PTRSettings
from ptr_robot.lerobot.taps import shrink
from ptr_robot.lerobot.window import Batch, Layout, Window
from ptr_robot.method import PTR, BeliefConfig, ChunkForward, EMATargetEncoder, PTROutput, Samples

STATE = "observation.state"
PTR_MODULE = "ptr"
SHORTER_RUNS = "for a run shorter than 60,000, --policy.ptr.run_steps=STEPS keeps the paper's proportions"


@dataclass(frozen=True)
class TapSizes:
    """The widths of what a policy hands to PTR."""

    context: int  # Dh
    action: int  # Da
    action_state: int  # Dc


class PTRHeads(nn.Module):
    """What a PTR policy has and its base has not."""

    embedder: nn.Module  # of recorded actions, where the policy has none
    belief_in: nn.Module  # from belief tokens to the policy's context tokens

    def __init__(self, method: PTR, **extra: nn.Module) -> None:
        super().__init__()
        self.method = method
        for name, module in extra.items():
            self.add_module(name, module)


class PTRPolicyMixin:
    """Comes before the base policy in a class's bases; says in five methods where that policy is tapped."""

    takes_belief: ClassVar[bool] = False
    tower_takes_any_size: ClassVar[bool] = True  # so that targets may be made of smaller images
    base_name: ClassVar[str]  # as a user calls the base policy
    config: Any
    ptr: PTRHeads

    def __init__(self, config: Any, dataset_meta: Any = None, **options: Any) -> None:
        super().__init__(config, **options)  # type: ignore[call-arg]
        self._frame_weights: FrameWeights | None = None
        self._has_started = False
        _check_window(config)
        if not self.takes_belief:
            logging.info(f"PTR: belief tokens are off, {self.base_name} has no place for context tokens")
            config.ptr = dataclasses.replace(config.ptr, belief=BeliefConfig(enabled=False))
        if dataset_meta is not None and dataset_meta.episodes is not None:  # None while lerobot-record begins a dataset
            facts = DatasetFacts.of(dataset_meta)
            check_consequences(facts, config.offset_steps)
            config.ptr = dataclasses.replace(config.ptr, num_episodes=facts.num_episodes)
            self._frame_weights = frame_weights(config.ptr, facts)
            if config.ptr.scorer.enabled and config.ptr.run_steps is None:
                warmup = config.ptr.weights.warmup_steps
                logging.info(f"PTR: weights are 1 in the first {warmup} steps; {SHORTER_RUNS}")
        with torch.random.fork_rng(devices=[]):  # the policy is initialised as it would be without PTR
            torch.default_generator.manual_seed(config.ptr.seed)
            self.ptr = PTRHeads(self._build_method(), **self._extra_heads())

    @abstractmethod
    def _tap_sizes(self) -> TapSizes:
        """The widths of h_t, E_t and C_t."""

    @abstractmethod
    def _vision_tower(self) -> nn.Module:
        """The module that the EMA encoder copies."""

    @abstractmethod
    def _tower_example(self) -> Tensor:  # (n, 3, H, W)
        """Images of a size that the tower takes."""

    @abstractmethod
    def _views(self, frame: Batch) -> list[tuple[Tensor, Tensor | None]]:  # (B, 3, H, W), (B,) bool
        """Each camera's images as the tower takes them, and where they count."""

    @abstractmethod
    def _forward_chunk(self, chunk: Batch, belief: Tensor | None) -> ChunkForward:
        """The base policy's training pass over one chunk of each sample."""

    def _extra_heads(self) -> dict[str, nn.Module]:
        """Modules of PTR that only this policy needs."""
        return {}

    def _default_cut(self) -> str | None:
        """Where the tower is cut unless the user says; None: half-way."""
        return None

    def _num_prefix_tokens(self) -> int:
        """Leading tokens of the tower's blocks that are no patches."""
        return 0

    def _build_method(self) -> PTR:
        settings: PTRSettings = self.config.ptr.in_this_run
        if not self.config.image_features:
            raise ConfigError(
                f"{self.config.type}: the dataset has no images, and PTR's consequences are made of them; use "
                f"--policy.type={self.config.type.removeprefix('ptr_')}, or ptr train, which can take states"
            )
        cut = settings.cut if settings.cut is not None else self._default_cut()
        example = self._tower_example()
        encoder = (
            EMATargetEncoder(
                self._vision_tower(), block=cut, num_prefix_tokens=self._num_prefix_tokens(), example=example
            )
            if settings.scorer.enabled
            else None
        )
        sizes = self._tap_sizes()
        state, layout = self.config.robot_state_feature, self._layout
        chunk_dim = layout.chunk_length * self.config.action_feature.shape[0]
        return PTR(
            settings,
            context_dim=sizes.context,
            action_dim=sizes.action,
            action_state_dim=sizes.action_state,
            target_dim=encoder(example.unsqueeze(1)).shape[-1] if encoder is not None else 1,
            state_dim=state.shape[0] if state is not None else 0,
            action_target_dim=chunk_dim if settings.scorer.needs_recorded_actions else 0,
            num_episodes=settings.num_episodes,
            target_encoder=encoder,
        )

    @property
    def _layout(self) -> Layout:
        config = self.config
        history = config.base_observation_deltas()
        return Layout(
            dims={key: len(feature.shape) for key, feature in config.input_features.items()},
            optional=frozenset(config.image_features) if getattr(config, "empty_cameras", 0) else frozenset(),
            has_time_axis=history is not None,
            num_history=1 if history is None else len(history),
            num_chunks=config.ptr.chunks,
            offset_steps=config.offset_steps,
            chunk_length=len(config.base_action_deltas()),
        )

    def forward(self, batch: Batch, reduction: str = "mean") -> tuple[Tensor, dict[str, float]]:
        """PTR's loss of a training batch, and a few numbers for the log."""
        if reduction != "mean":
            raise ConfigError(
                f"{self.config.type} weighs samples itself; for weights of your own leave LeRobot's sample weighting "
                "off and give --policy.ptr.prior_weights=FILE"
            )
        self._start()
        window = Window.of(batch, self._layout)
        samples = self._samples(batch, window)
        output = self._run(window, samples)
        return output.loss, _numbers(output)

    def _run(self, window: Window, samples: Samples) -> PTROutput:
        method, num_chunks = self.ptr.method, len(window.chunks)
        if method.belief is not None:
            return method.segment(
                lambda number, belief: self._forward_chunk(window.chunks[number], belief),
                samples,
                num_chunks=num_chunks,
            )
        output: PTROutput = method(
            ChunkForward.stack([self._forward_chunk(chunk, None) for chunk in window.chunks]), samples
        )
        return output

    def predict_from(self, belief: Tensor | None, batch: Batch) -> tuple[Tensor, Tensor | None]:  # noqa: ARG002
        """A chunk (B, L, D) given z_t, and z_{t+1}; for those who carry on several episodes themselves.

        None as z_t begins an episode; a policy without belief hands None back.
        """
        self.reset()  # type: ignore[attr-defined]
        return self.predict_action_chunk(batch), None  # type: ignore[attr-defined]

    def update(self) -> None:
        """LeRobot calls this after each step of the optimiser."""
        method = self.ptr.method
        method.update(self._vision_tower() if method.target_encoder is not None else None)

    def get_optim_params(self) -> list[dict[str, Any]]:
        """The base policy's parameter groups, and one of PTR's heads."""
        heads = set(self.ptr.parameters())
        own = [parameter for parameter in self.ptr.parameters() if parameter.requires_grad]
        given = super().get_optim_params()  # type: ignore[misc]
        given = [given] if isinstance(given, dict) else list(given)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        groups = [group | {"params": [p for p in group["params"] if p not in heads]} for group in groups]
        rate = {} if self.config.ptr.lr is None else {"lr": self.config.ptr.lr}
        return [*groups, {"params": own, **rate}] if own else groups

    def _validate_peft_config(self, peft_config: Any) -> None:
        """As LeRobot's; and PTR's heads, which PEFT would freeze, are trained and saved whole, without adapters."""
        super()._validate_peft_config(peft_config)  # type: ignore[misc]
        peft_config.modules_to_save = [*(peft_config.modules_to_save or []), PTR_MODULE]
        if getattr(peft_config, "exclude_modules", None) is None:
            peft_config.exclude_modules = rf"{PTR_MODULE}\..*"

    def wrap_with_peft(self, *arguments: Any, **options: Any) -> Any:
        """As LeRobot's; the EMA tower goes on without gradients."""
        wrapped = super().wrap_with_peft(*arguments, **options)  # type: ignore[misc]
        encoder = self.ptr.method.target_encoder
        if encoder is not None:
            encoder.requires_grad_(False)
            if any(parameter.requires_grad for parameter in self._vision_tower().parameters()):
                raise ConfigError(
                    "the adapters' target_modules reach into the vision tower, whose EMA copy has no place for them; "
                    "name those of the language model and the action expert alone (--peft.target_modules)"
                )
        return wrapped

    @classmethod
    def _load_as_safetensor(cls, model: Any, model_file: str, map_location: str, strict: bool) -> Any:  # noqa: ARG003
        """As LeRobot's, but a checkpoint without PTR is PTR's fresh start and no list of missing keys."""
        return load_with_fresh_heads(model, Path(model_file), strict=strict)

    def _start(self) -> None:
        """Before the first pass: the EMA tower of an untrained PTR is the tower as it is now, whatever was loaded."""
        if self._has_started:
            return
        self._has_started = True
        method = self.ptr.method
        if method.target_encoder is None:
            return
        tower = self._vision_tower()
        if method.step == 0:
            method.target_encoder.update(tower, decay=0.0)
        if not any(parameter.requires_grad for parameter in tower.parameters()):
            logging.warning("PTR: the vision tower is frozen, so its EMA copy never moves and targets stay as they are")

    def _samples(self, batch: Batch, window: Window) -> Samples:
        layout, num_chunks = self._layout, len(window.chunks)
        steps = torch.arange(num_chunks, device=batch["index"].device) * layout.offset_steps
        index = (batch["index"].reshape(-1, 1) + steps).flatten()  # (B T,)

        def repeat(name: str) -> Tensor:  # (B T,)
            values: Tensor = batch[name].reshape(-1).repeat_interleave(num_chunks)
            return values

        states = [frame[STATE] for frame in window.frames[:-1]] if self.config.robot_state_feature else None
        return Samples(
            targets=self._targets(window).flatten(0, 1),
            has_target=window.has_target.flatten(),
            sample_ids=index,
            episode_ids=repeat("episode_index"),
            task_ids=repeat("task_index"),
            states=None if states is None else torch.stack(states, dim=1).flatten(0, 1),
            chunk_is_pad=window.chunk_is_pad.flatten() if num_chunks > 1 else None,
            action_targets=_recorded(window) if self.ptr.method.widths.action_target else None,
            prior_weights=None if self._frame_weights is None else self._frame_weights(index),
        )

    @torch.no_grad()  # a consequence is a constant: nothing may learn to be easy to predict
    def _targets(self, window: Window) -> Tensor:  # (B, T, Dy)
        method = self.ptr.method
        if method.target_encoder is None:
            return window.has_target.new_zeros(*window.has_target.shape, method.widths.target, dtype=torch.float32)
        is_change = method.config.targets.kind == "change"
        features = [self._features(frame) for frame in (window.frames if is_change else window.frames[1:])]
        after = torch.stack(features[-len(window.chunks) :], dim=1)
        return method.make_targets(after, torch.stack(features[:-1], dim=1) if is_change else None)

    def _features(self, frame: Batch) -> Tensor:  # (B, Dy)
        """The mean over the cameras that a sample has."""
        sums, shares = [], []
        for images, mask in self._views(frame):
            share = torch.ones(len(images), 1, device=images.device) if mask is None else mask.float().unsqueeze(1)
            if self.tower_takes_any_size:
                images = shrink(images, self.config.ptr.target_pixels)
            sums.append(share * self.ptr.method.encode(images.unsqueeze(1)))
            shares.append(share)
        return torch.stack(sums).sum(dim=0) / torch.stack(shares).sum(dim=0).clamp_min(1)


def _check_window(config: Any) -> None:
    history = config.base_observation_deltas()
    if history is not None and len(history) > 1 and config.ptr.chunks > 1:
        raise ConfigError(
            f"policy.ptr.num_chunks is {config.ptr.chunks}, and {config.type} looks at {len(history)} frames at once; "
            "several chunks need n_obs_steps=1"
        )


def _recorded(window: Window) -> Tensor:  # (B T, L D)
    """The recorded chunks, zero on padding."""
    chunks = [chunk["action"] * ~chunk["action_is_pad"].unsqueeze(-1) for chunk in window.chunks]
    return torch.stack(chunks, dim=1).flatten(2).flatten(0, 1)


@torch.no_grad()
def _numbers(output: PTROutput) -> dict[str, float]:
    """Few: LeRobot 0.6 prints each of them on every line of its log."""
    numbers = {"action_loss": output.action_loss, "w_std": output.weights.float().std(correction=0)}
    if bool(output.is_scored.any()):
        numbers["id_loss"] = output.identification_loss
        numbers["id_acc"] = (output.margins[output.is_scored] > 0).float().mean()
    return {name: float(value) for name, value in numbers.items()}
