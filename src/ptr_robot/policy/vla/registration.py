"""The reference policy as a registered type: its flags, presets and files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ptr_robot.errors import ConfigError, DataError, PTRError
from ptr_robot.policy.interface import Policy
from ptr_robot.policy.policy_files import WEIGHTS_FILE, check_weights, load_weights, read_record
from ptr_robot.policy.policy_type import PAPER_SCALE, PolicyChoice, PolicyType, SavedPolicy, TrainingScale
from ptr_robot.policy.registry import register_policy
from ptr_robot.policy.robot_record import RobotRecord
from ptr_robot.policy.vla.config import BUILT_IN_TOKENIZERS, PolicyConfig
from ptr_robot.policy.vla.policy import MixturePolicy
from ptr_robot.policy.vla.presets import preset
from ptr_robot.policy.vla.pretrained import load_action_expert, load_language_model, load_vision_tower

TOKENIZER_FOLDER = "tokenizer"
_KEPT_BY_A_TRAINED_POLICY = ("head", "chunk_length", "image_size", "augment", "max_tokens")
_SCALES = {
    "tiny": TrainingScale(2000, global_chunks=64, learning_rate=1e-3, log_freq=50, save_freq=1000),
    "tiny-state": TrainingScale(2000, global_chunks=128, learning_rate=1e-3, log_freq=50, save_freq=1000),
    "micro": TrainingScale(2000, global_chunks=64, learning_rate=2e-3, log_freq=50, save_freq=2000),
    "micro-state": TrainingScale(2000, global_chunks=64, learning_rate=2e-3, log_freq=50, save_freq=2000),
    "micro-words": TrainingScale(2000, global_chunks=64, learning_rate=2e-3, log_freq=50, save_freq=2000),
    "micro-words-state": TrainingScale(2000, global_chunks=64, learning_rate=2e-3, log_freq=50, save_freq=2000),
    "small": TrainingScale(20_000, global_chunks=128, learning_rate=3e-4, log_freq=100, save_freq=5000),
}


@dataclass(frozen=True)
class VLAChoice(PolicyChoice):
    """The reference policy: a preset with its usual changes, or the folder of a trained one."""

    # vla, or a type of your own package: by an entry point, or with --policy.discover_packages_path=PACKAGE.
    type: str = "vla"
    # tiny, tiny-state, micro, micro-state, micro-words, micro-words-state, small or being-h05.
    preset: str = "tiny"
    # flow, diffusion or autoregressive; by default the preset's.
    head: str | None = None
    # L: actions in a chunk; by default the preset's.
    chunk_length: int | None = None
    # Pixels of a square image; by default the preset's.
    image_size: int | None = None
    # Random crops and colours in training; by default the preset's.
    augment: bool | None = None
    # Tokens (small presets: bytes) that an instruction may have; by default the preset's.
    max_tokens: int | None = None
    # Whether h_t, the context that PTR scores by, has read the state; by default not, as in the paper, under every
    # method alike. A trained policy keeps what it was trained with.
    context_sees_state: bool | None = None
    # A Qwen3 model of the context stream's size: a folder or a hub id.
    language_model: str | None = None
    # A Qwen3 model of the action stream's size: a folder or a hub id.
    action_expert: str | None = None
    # Published weights of the vision tower: a timm name, or local-dir:FOLDER.
    vision_weights: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _KEPT_BY_A_TRAINED_POLICY:
            if self.path is not None and getattr(self, name) is not None:
                raise ConfigError(f"policy.{name} is set, but policy.path names a trained policy, which keeps its own")

    def configure(self, num_belief_tokens: int | None) -> PolicyConfig:
        """The preset with the changes that the flags ask for."""
        config = preset(self.preset)
        changes = _given(head=self.head, chunk_length=self.chunk_length, num_belief_tokens=num_belief_tokens)
        changes["context_sees_state"] = bool(self.context_sees_state)  # unset: the paper's h_t = f(o, l, z)
        if self.max_tokens is not None:
            changes["language"] = dataclasses.replace(config.language, max_tokens=self.max_tokens)
        vision = _given(image_size=self.image_size, augment=self.augment)
        if vision and config.vision is None:
            raise ConfigError(f"policy.{next(iter(vision))} is set, but the preset {self.preset!r} looks at no images")
        if config.vision is not None:
            changes["vision"] = dataclasses.replace(config.vision, **vision)
        return dataclasses.replace(config, **changes)

    @property
    def scale(self) -> TrainingScale:
        """That of the preset; the large one has the paper's."""
        return _SCALES.get(self.preset, PAPER_SCALE)

    @property
    def label(self) -> str:
        """The preset."""
        return self.preset

    def load_pretrained(self, policy: MixturePolicy) -> None:
        """Language models for the streams, a timm model for the tower; what a flag changes in a trained policy."""
        if self.path is not None and self.context_sees_state is not None:
            policy.config = dataclasses.replace(policy.config, context_sees_state=self.context_sees_state)
        if self.language_model:
            load_language_model(policy, self.language_model)
        if self.action_expert:
            load_action_expert(policy, self.action_expert)
        if self.vision_weights:
            load_vision_tower(policy, self.vision_weights)


class VLAType(PolicyType):
    """Saved with its tokenizer, where it has one of its own."""

    def save(self, policy: Policy, folder: Path, robots: Sequence[RobotRecord]) -> None:
        """The default files and the tokenizer's."""
        assert isinstance(policy, MixturePolicy)
        super().save(policy, folder, robots)
        if policy.config.language.tokenizer not in BUILT_IN_TOKENIZERS:
            policy.text.tokenizer.save(folder / TOKENIZER_FOLDER)

    def load(self, folder: Path) -> SavedPolicy:
        """The tokenizer saved beside the weights replaces the place it once came from."""
        config = self.read_config(folder)
        if config.language.tokenizer not in BUILT_IN_TOKENIZERS:
            language = dataclasses.replace(config.language, tokenizer=str(folder / TOKENIZER_FOLDER))
            config = dataclasses.replace(config, language=language)
        policy = _build_for(config, folder)
        load_weights(policy, folder / WEIGHTS_FILE)
        return SavedPolicy(policy.eval(), read_record(folder).robots)

    def read_config(self, folder: Path) -> PolicyConfig:
        """What a saved policy is made of, without its weights."""
        config = super().read_config(folder)
        assert isinstance(config, PolicyConfig)
        return config

    def decode(self, values: dict[str, Any]) -> PolicyConfig:
        """Strictly: an unknown or missing field is an error that names it."""
        return PolicyConfig.from_dict(values)

    def is_same(self, saved: PolicyConfig, chosen: PolicyConfig) -> bool:
        """But for what loading published weights changed: the tokenizer's place, the normalisation of pixels."""
        language = dataclasses.replace(chosen.language, tokenizer=saved.language.tokenizer)
        vision = chosen.vision
        if vision is not None and saved.vision is not None:
            vision = dataclasses.replace(vision, mean=saved.vision.mean, std=saved.vision.std)
        return saved == dataclasses.replace(chosen, language=language, vision=vision)


def _build_for(config: PolicyConfig, folder: Path) -> MixturePolicy:
    """The policy that a folder's configuration describes; memory is taken only for weights that are there."""
    try:
        with torch.device("meta"):
            check_weights(MixturePolicy(config), folder / WEIGHTS_FILE)
        return MixturePolicy(config)
    except PTRError:
        raise
    except (TypeError, ValueError, LookupError, RuntimeError, ArithmeticError, AttributeError, AssertionError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise DataError(f"{folder}: no policy can be built from its configuration ({reason})") from error


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


register_policy(VLAType(name="vla", choice=VLAChoice, config=PolicyConfig, policy=MixturePolicy))
