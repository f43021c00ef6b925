"""A policy as a folder: config.json, model.safetensors and, where it has one, its tokenizer."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.policy.robot_record import RobotRecord
from ptr_robot.policy.vla.config import BYTES, LanguageConfig, PolicyConfig
from ptr_robot.policy.vla.policy import MixturePolicy

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FOLDER = "tokenizer"
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class SavedPolicy:
    """A policy read from a folder, and the robots it was trained for."""

    policy: MixturePolicy
    robots: tuple[RobotRecord, ...]


def save_policy(policy: MixturePolicy, folder: Path, robots: Sequence[RobotRecord] = ()) -> Path:
    """Write the policy into a new folder, whole or not at all."""
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another folder or remove it")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # what an interrupted save left behind
    try:
        partial.mkdir(parents=True)
        _write(policy, partial, robots)
        partial.replace(folder)
    except OSError as error:
        raise DataError(f"{folder} could not be written: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def load_policy(folder: Path) -> SavedPolicy:
    """Read a policy back; it predicts what it predicted when it was saved."""
    config, robots = _read_config(folder / CONFIG_FILE)
    policy = MixturePolicy(_with_own_tokenizer(config, folder))
    load_weights(policy, folder / WEIGHTS_FILE)
    return SavedPolicy(policy=policy.eval(), robots=robots)


def read_policy_config(folder: Path) -> PolicyConfig:
    """What a saved policy is made of, without its weights."""
    return _read_config(folder / CONFIG_FILE)[0]


def load_weights(module: nn.Module, file: Path) -> None:
    """Fill every parameter of ``module`` from a safetensors file; the first one that does not fit is named."""
    safetensors = require("safetensors", "lerobot")
    if not file.is_file():
        raise DataError(f"{file}: no such file")
    try:
        with safetensors.safe_open(file, framework="pt") as reader:
            shapes = {name: tuple(reader.get_slice(name).get_shape()) for name in reader.keys()}  # noqa: SIM118
            _check_shapes(module.state_dict(), shapes, file)
            module.load_state_dict({name: reader.get_tensor(name) for name in shapes})
    except safetensors.SafetensorError as error:
        raise DataError(f"{file} is not a whole safetensors file ({error}); copy or save it again") from error


def _write(policy: MixturePolicy, folder: Path, robots: Sequence[RobotRecord]) -> None:
    safetensors = require("safetensors", "lerobot")
    record = {
        "format": FORMAT,
        "policy": policy.config.to_dict(),
        "robots": [dataclasses.asdict(robot) for robot in robots],
    }
    (folder / CONFIG_FILE).write_text(json.dumps(record, indent=2) + "\n")
    tensors = {name: tensor.contiguous() for name, tensor in policy.state_dict().items()}
    try:
        require("safetensors.torch", "lerobot").save_file(tensors, folder / WEIGHTS_FILE)
    except safetensors.SafetensorError as error:
        raise OSError(str(error)) from error
    if policy.config.language.tokenizer != BYTES:
        policy.text.tokenizer.save(folder / TOKENIZER_FOLDER)


def _read_config(file: Path) -> tuple[PolicyConfig, tuple[RobotRecord, ...]]:
    if not file.is_file():
        raise DataError(f"{file}: no such file; give the folder of a saved policy")
    try:
        record: dict[str, Any] = json.loads(file.read_text())
    except ValueError as error:
        raise DataError(f"{file} is not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT or not {"policy", "robots"} <= record.keys():
        raise DataError(f"{file} is not the config of a saved policy of format {FORMAT}; save the policy again")
    try:
        robots = tuple(
            RobotRecord(entry["name"], tuple(entry["state_slots"]), tuple(entry["action_slots"]))
            for entry in record["robots"]
        )
        return PolicyConfig.from_dict(record["policy"]), robots
    except (TypeError, ValueError, KeyError) as error:
        raise DataError(f"{file} cannot be read ({type(error).__name__}: {error}); copy the policy again") from error


def _with_own_tokenizer(config: PolicyConfig, folder: Path) -> PolicyConfig:
    """The tokenizer saved beside the weights replaces the place it once came from."""
    if config.language.tokenizer == BYTES:
        return config
    values = dataclasses.asdict(config.language) | {"tokenizer": str(folder / TOKENIZER_FOLDER)}
    return dataclasses.replace(config, language=LanguageConfig(**values))


def _check_shapes(own: dict[str, Tensor], found: dict[str, tuple[int, ...]], file: Path) -> None:
    for name, tensor in own.items():
        if name not in found:
            raise DataError(f"{file} lacks the tensor {name!r}; it was saved by a policy of another configuration")
        if found[name] != tuple(tensor.shape):
            raise DataError(
                f"{file}: the tensor {name!r} has shape {found[name]} and this policy has {tuple(tensor.shape)}; "
                "load it with the configuration it was saved with"
            )
    if extra := sorted(set(found) - set(own)):
        raise DataError(
            f"{file} holds the tensor {extra[0]!r}, which this policy lacks; load it with the configuration it was "
            "saved with"
        )
