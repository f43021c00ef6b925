"""Loading a checkpoint into a PTR policy: PTR's own, or a base policy's that has none of PTR's keys."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from ptr_robot.errors import ConfigError

HEADS = "ptr."
Tensors = dict[str, Tensor]


def load_with_fresh_heads(
    model: Any, file: Path, *, strict: bool, rename: Callable[[Tensors], Tensors] | None = None
) -> Any:
    """Load ``file``; where it holds nothing of PTR, PTR starts afresh, and one line says so.

    ``rename`` gives the tensors of a file the names that the policy has for them.
    """
    from lerobot.policies.utils import log_model_loading_keys
    from safetensors.torch import load_file, load_model

    try:
        if rename is None:
            missing, unexpected = load_model(model, file, strict=False)
        else:
            missing, unexpected = _load_tensors(model, rename(load_file(file)))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        if HEADS not in str(error):
            raise ConfigError(
                f"{file}: has other sizes than these settings ({reason}); --policy.type has LeRobot's defaults, "
                "so give those of the checkpoint's config.json as --policy.* flags"
            ) from error
        raise ConfigError(
            f"{file}: its PTR has other sizes than these settings ({reason}); keep the run's own policy.ptr settings, "
            "or start from a checkpoint of the base policy"
        ) from error
    heads = [name for name in model.state_dict() if name.startswith(HEADS)]
    absent = [name for name in missing if name.startswith(HEADS)]
    others = [name for name in missing if not name.startswith(HEADS)]
    if len(absent) >= len(heads) - 1:  # torch never reports extra states as missing
        logging.info(f"PTR: {file.parent} is a checkpoint of the base policy; PTR starts afresh")
    elif absent:
        logging.warning(
            f"PTR: the checkpoint lacks {len(absent)} of PTR's tensors (first {absent[0]}); they start afresh"
        )
    if strict and (others or unexpected):
        raise ConfigError(f"{file}: does not fit the policy; missing {others[:3]}, unknown {list(unexpected)[:3]}")
    log_model_loading_keys(others, list(unexpected))
    return model


def _load_tensors(model: Any, tensors: Tensors) -> tuple[list[str], list[str]]:
    """What was missing and unexpected; a tensor that is tied to one of the file's is not missing."""
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    own = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    loaded = {own[name].data_ptr() for name in tensors if name in own}
    return [name for name in missing if name not in own or own[name].data_ptr() not in loaded], unexpected
