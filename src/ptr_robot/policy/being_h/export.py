"""A policy back in Being-H0.5's own layout, for those who run its public code.

What post-training leaves out (the language head, MPG) and what it cannot change (tokenizer, statistics, config.json)
comes from the checkpoint that the policy started from. Belief tokens have no place in that layout.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import Tensor

from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.files import refuse_foreign_files
from ptr_robot.policy.being_h.adapters import merged_state
from ptr_robot.policy.being_h.config import BeingHConfig
from ptr_robot.policy.being_h.policy import BeingHPolicy
from ptr_robot.policy.being_h.released import CONFIG_FILE, is_released
from ptr_robot.policy.being_h.shards import StoredTensor, list_tensors, read_tensors
from ptr_robot.policy.being_h.tensor_names import to_released

WEIGHTS_FILE = "model.safetensors"
_COPIED = ("*.json", "*.txt", "*.jinja")  # the tokenizer, the statistics of its data, the config
_INDEX = "*.safetensors.index.json"


def export_released(
    policy: BeingHPolicy, folder: Path, *, base: Path | None = None, dtype: torch.dtype | None = None
) -> Path:
    """Write a new folder atomically; ``dtype``: of the weights, by default that of the base checkpoint."""
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another folder or remove it")
    base = _base_folder(policy, base)
    refuse_foreign_files(base)  # a link could bring anything of this machine into the copy
    stored = list_tensors(base)
    tensors = _all_tensors(policy, stored, base, dtype)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # what an interrupted export left behind
    try:
        partial.mkdir(parents=True)
        _copy_files(base, partial)
        _save(tensors, partial / WEIGHTS_FILE)
        partial.replace(folder)
    except OSError as error:
        raise DataError(f"{folder} could not be written: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def unlike_released(config: BeingHConfig) -> list[str]:
    """Flags of the policy that the released layout has no place for: the public code runs what is exported without."""
    flags = {
        "attention=paper": config.attention != "causal",
        "context_sees_state=false": not config.context_sees_state,
        "unused_slots=zero": not config.flow.every_slot,
    }
    return [f"policy.{flag}" for flag, is_set in flags.items() if is_set]


def _base_folder(policy: BeingHPolicy, base: Path | None) -> Path:
    """The checkpoint that the policy came from, wherever it is now."""
    if base is None and policy.config.base is None:
        raise ConfigError("the policy does not say which checkpoint it came from; name it with --base=FOLDER")
    place = base or Path(str(policy.config.base))
    if not is_released(place):
        raise ConfigError(
            f"{place / CONFIG_FILE} is not that of a Being-H0.5 checkpoint; name the one that the policy came from "
            "with --base=FOLDER"
        )
    return place


def _all_tensors(
    policy: BeingHPolicy, stored: dict[str, StoredTensor], base: Path, dtype: torch.dtype | None
) -> dict[str, Tensor]:
    """Our tensors and those that we left out, in the order and the precision of the base checkpoint."""
    own = to_released(merged_state(policy))
    for name, tensor in own.items():
        if name not in stored or stored[name].shape != tuple(tensor.shape):
            found = stored[name].shape if name in stored else "none"
            raise ConfigError(
                f"{base} has {found} for the tensor {name!r} and the policy {tuple(tensor.shape)}; name the checkpoint "
                "that the policy came from with --base=FOLDER"
            )
    tensors = {}
    for name, tensor in read_tensors(stored):
        tensors[name] = own.get(name, tensor).detach().cpu().to(dtype or tensor.dtype).contiguous()
    return tensors


def _copy_files(base: Path, folder: Path) -> None:
    for pattern in _COPIED:
        for file in sorted(base.glob(pattern)):
            if file.is_file() and not file.match(_INDEX):
                shutil.copyfile(file, folder / file.name)


def _save(tensors: dict[str, Tensor], file: Path) -> None:
    safetensors = require("safetensors", "lerobot")
    try:
        require("safetensors.torch", "lerobot").save_file(tensors, file, metadata={"format": "pt"})
    except safetensors.SafetensorError as error:
        raise OSError(str(error)) from error
