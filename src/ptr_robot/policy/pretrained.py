"""Published weights into the parts of a policy: language models for its streams, a timm model for its tower."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from torch import nn

from ptr_robot.errors import ConfigError, require
from ptr_robot.policy.trunk import QWEN3
from ptr_robot.policy.vision import create_tower, resolve_arguments
from ptr_robot.policy.vla import MixturePolicy


def load_language_model(policy: MixturePolicy, source: str | Path) -> None:
    """A Qwen3 model of the context stream's size, from a folder or the hub, token embeddings included."""
    _fill(policy.trunk.und, _read_qwen3(source), f"{source} and the context stream")


def load_action_expert(policy: MixturePolicy, source: str | Path) -> None:
    """A Qwen3 model of the action stream's size; its token embeddings are left out."""
    model = _read_qwen3(source)
    del model.embed_tokens
    _fill(policy.trunk.gen, model, f"{source} and the action stream")


def load_vision_tower(policy: MixturePolicy, source: str | None = None) -> None:
    """timm's published weights of the policy's tower, or those of another timm name ("local-dir:..." included)."""
    if policy.vision is None:
        raise ConfigError("this policy has no vision tower to load weights into")
    own = policy.vision.config
    config = dataclasses.replace(own, tower=source or own.tower, tower_arguments=resolve_arguments(own))
    try:
        tower = create_tower(config, pretrained=True)
    except (OSError, RuntimeError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"the weights of the vision tower {config.tower!r} cannot be loaded ({first_line}); give a timm name that "
            "can be reached, or local-dir:FOLDER"
        ) from error
    _fill(policy.vision.tower.model, tower, f"{config.tower} and the vision tower")


def _read_qwen3(source: str | Path) -> Any:
    try:
        return require(QWEN3, "lerobot").Qwen3Model.from_pretrained(str(source), use_safetensors=True)
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{source} cannot be loaded as a Qwen3 model ({first_line}); give a folder with safetensors weights or a "
            "hub id that can be reached"
        ) from error


def _fill(module: nn.Module, source: nn.Module, what: str) -> None:
    """Copy weights; the first tensor that does not fit is named."""
    own, found = module.state_dict(), source.state_dict()
    for name in {**own, **found}:
        shapes = [tuple(side[name].shape) if name in side else None for side in (found, own)]
        if shapes[0] != shapes[1]:
            raise ConfigError(
                f"{what} differ at the tensor {name!r}: {shapes[0]} against {shapes[1]}; choose a model of the size of "
                "the preset"
            )
    module.load_state_dict(found)
