"""The size of the published checkpoints, for counting what they cost before they are downloaded."""

from __future__ import annotations

from ptr_robot.policy.being_h.config import BeingHConfig, GatingConfig
from ptr_robot.policy.being_h.released import INSTRUCTIONS, RESIZE, SYSTEM_MESSAGES, TOWER
from ptr_robot.policy.vla.config import FlowConfig, LanguageConfig, StreamConfig, TrunkConfig, VisionConfig

IMAGE_SIZE = 224


def published_size(tokenizer: str, *, checkpoint_activations: bool = True, has_gating: bool = False) -> BeingHConfig:
    """InternViT-300M, a Qwen3-1.7B context stream and a Qwen3-0.6B action stream, from their public configurations."""
    return BeingHConfig(
        trunk=TrunkConfig(
            context=StreamConfig(width=2048, mlp_width=6144),
            action=StreamConfig(width=1024, mlp_width=3072),
            num_layers=28,
            num_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            rope_theta=1e6,
            checkpoint_activations=checkpoint_activations,
        ),
        vision=VisionConfig(
            tower=TOWER, tower_arguments={"img_size": IMAGE_SIZE}, image_size=IMAGE_SIZE, resize=RESIZE
        ),
        language=LanguageConfig(
            tokenizer=tokenizer, vocabulary_size=151_936, prompt=SYSTEM_MESSAGES["being_h0"], max_tokens=512
        ),
        instruction=INSTRUCTIONS["long"],
        activation="relu",
        flow=FlowConfig(num_time_buckets=1000, every_slot=True),
        gating=GatingConfig(strength=0.1, num_directions=32) if has_gating else None,
    )
