"""Named sizes of the reference policy, from minutes on a laptop to the paper's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.policy.vla.config import WORDS, LanguageConfig, PolicyConfig, StreamConfig, TrunkConfig, VisionConfig


def preset(name: str) -> PolicyConfig:
    """The configuration of that name; ``PRESETS`` lists them."""
    if name not in PRESETS:
        raise ConfigError(f"there is no policy preset {name!r}; {did_you_mean(name, PRESETS)}")
    return PRESETS[name]()


def _tiny_trunk(context: StreamConfig) -> TrunkConfig:
    return TrunkConfig(
        context=context,
        action=StreamConfig(width=128, mlp_width=256),
        num_layers=4,
        num_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        rope_theta=1e4,
    )


def _tiny() -> PolicyConfig:
    tower_arguments = {"patch_size": 8, "embed_dim": 96, "depth": 4, "num_heads": 3, "mlp_ratio": 2.0}
    return PolicyConfig(
        trunk=_tiny_trunk(StreamConfig(width=128, mlp_width=256)),
        vision=VisionConfig(tower="vit_tiny_patch16_224", tower_arguments=tower_arguments, image_size=64),
    )


def _tiny_state() -> PolicyConfig:
    """No images, and a narrow context stream: all it carries is text."""
    return PolicyConfig(trunk=_tiny_trunk(StreamConfig(width=64, mlp_width=128)))


def _micro_state() -> PolicyConfig:
    """As small as still learns several tasks from states: for studies of many trainings."""
    return PolicyConfig(
        trunk=TrunkConfig(
            context=StreamConfig(width=32, mlp_width=64),
            action=StreamConfig(width=96, mlp_width=192),
            num_layers=2,
            num_heads=3,
            num_key_value_heads=1,
            head_dim=32,
            rope_theta=1e4,
        )
    )


def _micro() -> PolicyConfig:
    """``micro-state`` with eyes: a tower of three layers over sixteen patches."""
    tower_arguments = {"patch_size": 8, "embed_dim": 64, "depth": 3, "num_heads": 2, "mlp_ratio": 2.0}
    state = _micro_state()
    trunk = dataclasses.replace(state.trunk, context=StreamConfig(width=64, mlp_width=128))
    vision = VisionConfig(tower="vit_tiny_patch16_224", tower_arguments=tower_arguments, image_size=32)
    return PolicyConfig(trunk=trunk, vision=vision)


def _words(policy: PolicyConfig) -> PolicyConfig:
    """The same policy, reading words where it read bytes."""
    return dataclasses.replace(policy, language=LanguageConfig(tokenizer=WORDS, vocabulary_size=2048))


def _small() -> PolicyConfig:
    return PolicyConfig(
        trunk=TrunkConfig(
            context=StreamConfig(width=384, mlp_width=1024),
            action=StreamConfig(width=256, mlp_width=768),
            num_layers=8,
            num_heads=6,
            num_key_value_heads=3,
            head_dim=64,
            rope_theta=1e4,
        ),
        vision=VisionConfig(
            tower="vit_small_patch16_224", image_size=224, augment=True, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)
        ),
    )


def _being_h05() -> PolicyConfig:
    """InternViT-300M, a Qwen3-1.7B context stream and a Qwen3-0.6B action stream: 28 layers each."""
    return PolicyConfig(
        trunk=TrunkConfig(
            context=StreamConfig(width=2048, mlp_width=6144),
            action=StreamConfig(width=1024, mlp_width=3072),
            num_layers=28,
            num_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            rope_theta=1e6,
            checkpoint_activations=True,
        ),
        vision=VisionConfig(tower="vit_intern300m_patch14_448", image_size=224, augment=True),
        language=LanguageConfig(
            tokenizer="Qwen/Qwen3-1.7B",
            vocabulary_size=151936,
            prompt="Act on what the views show and the state says, as instructed.",
        ),
    )


PRESETS: dict[str, Callable[[], PolicyConfig]] = {
    "tiny": _tiny,
    "tiny-state": _tiny_state,
    "micro": _micro,
    "micro-state": _micro_state,
    "micro-words": lambda: _words(_micro()),
    "micro-words-state": lambda: _words(_micro_state()),
    "small": _small,
    "being-h05": _being_h05,
}
