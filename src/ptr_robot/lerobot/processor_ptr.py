"""The processors of each PTR policy are its base policy's."""

from __future__ import annotations

from typing import Any


def make_ptr_act_pre_post_processors(config: Any, dataset_stats: Any = None) -> tuple[Any, Any]:
    """ACT's."""
    from lerobot.policies.act.processor_act import make_act_pre_post_processors

    return make_act_pre_post_processors(config, dataset_stats=dataset_stats)  # type: ignore[no-any-return]


def make_ptr_diffusion_pre_post_processors(config: Any, dataset_stats: Any = None) -> tuple[Any, Any]:
    """Diffusion Policy's."""
    from lerobot.policies.diffusion.processor_diffusion import make_diffusion_pre_post_processors

    return make_diffusion_pre_post_processors(config, dataset_stats=dataset_stats)  # type: ignore[no-any-return]


def make_ptr_smolvla_pre_post_processors(config: Any, dataset_stats: Any = None) -> tuple[Any, Any]:
    """SmolVLA's."""
    from lerobot.policies.smolvla.processor_smolvla import make_smolvla_pre_post_processors

    return make_smolvla_pre_post_processors(config, dataset_stats=dataset_stats)  # type: ignore[no-any-return]


def make_ptr_vla_pre_post_processors(config: Any, dataset_stats: Any = None) -> tuple[Any, Any]:
    """ACT's, which any policy can use: batches, device, normalisation."""
    return make_ptr_act_pre_post_processors(config, dataset_stats)
