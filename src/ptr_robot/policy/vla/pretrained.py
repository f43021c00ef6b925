"""Published weights into the parts of a policy: language models for its streams, a timm model for its tower."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from torch import nn

from ptr_robot.errors import ConfigError, require
from ptr_robot.policy.vla.policy import MixturePolicy
from ptr_robot.policy.vla.trunk import QWEN3
from ptr_robot.policy.vla.vision import create_tower, resolve_arguments


def load_language_model(policy: MixturePolicy, source: str | Path) -> None:
    """A Qwen3 model of the context stream's size, from a folder or the hub, token embeddings included."""
    model = _read_qwen3(source)
    _check_numbers(policy.trunk.und.config, model.config, source)
    _fill(policy.trunk.und, model, f"{source} and the context stream")


def load_action_expert(policy: MixturePolicy, source: str | Path) -> None:
    """A Qwen3 model of the action stream's size; its token embeddings are left out."""
    model = _read_qwen3(source)
    _check_numbers(policy.trunk.gen.config, model.config, source)
    del model.embed_tokens
    _fill(policy.trunk.gen, model, f"{source} and the action stream")


def load_vision_tower(policy: MixturePolicy, source: str | None = None) -> None:
    """timm's published weights of the policy's tower, or those of another timm name ("local-dir:..." included).

    Pixels are normalised from then on as they were when these weights were trained.
    """
    if policy.vision is None:
        raise ConfigError("this policy has no vision tower to load weights into")
    own = policy.vision.config
    config = dataclasses.replace(own, tower=source or own.tower, tower_arguments=resolve_arguments(own))
    try:
        tower = create_tower(config, pretrained=True)
    except (OSError, RuntimeError, TypeError, KeyError, ValueError) as error:
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"the weights of the vision tower {config.tower!r} cannot be loaded ({first_line}); give a timm name that "
            "can be reached, or local-dir:FOLDER"
        ) from error
    _fill(policy.vision.tower.model, tower, f"{config.tower} and the vision tower")
    published = require("timm.data", "lerobot").resolve_model_data_config(tower)
    vision = dataclasses.replace(own, mean=published["mean"], std=published["std"])
    policy.vision.tower.set_normalisation(vision)
    policy.vision.config = vision
    policy.config = dataclasses.replace(policy.config, vision=vision)


def _read_qwen3(source: str | Path) -> Any:
    """The model itself; transformers would fill what the files lack with random numbers and go on."""
    try:
        model, found = require(QWEN3, "lerobot").Qwen3Model.from_pretrained(
            str(source), use_safetensors=True, output_loading_info=True
        )
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{source} cannot be loaded as a Qwen3 model ({first_line}); give a folder with safetensors weights or a "
            "hub id that can be reached"
        ) from error

    if lacking := [*found["missing_keys"], *(entry[0] for entry in found["mismatched_keys"])]:
        raise ConfigError(
            f"{source} lacks {len(lacking)} tensors of a Qwen3 model or has them in another shape, for example "
            f"{min(lacking)!r}; give a folder or hub id with the whole model"
        )
    return model


def _check_numbers(own: Any, found: Any, source: str | Path) -> None:
    """What weights mean also depends on numbers that are none of them."""
    for name in ("rope_theta", "rms_norm_eps", "hidden_act"):
        expected, given = _setting(own, name), _setting(found, name)
        if expected != given:
            raise ConfigError(
                f"{source} was trained with {name}={given} and this policy has {expected}; "
                "choose a model that the preset is made for"
            )


def _setting(config: Any, name: str) -> Any:
    """One of a model's numbers; transformers 5 has those of the positions in a dictionary of their own."""
    values = config.to_dict()
    return values[name] if name in values else values["rope_parameters"][name]


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
