"""The files of a saved policy: config.json with its type, configuration and robots, and weights as safetensors."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ptr_robot.errors import DataError, require
from ptr_robot.policy.robot_record import RobotRecord
from ptr_robot.text_files import read_json

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
FORMAT = 2
_FLOATS = ("F64", "F32", "F16", "BF16")  # as safetensors calls them
FIRST_TYPE = "vla"  # the only one of format 1, which names none


@dataclass(frozen=True)
class PolicyRecord:
    """What config.json says."""

    file: Path
    type: str
    config: dict[str, Any]
    robots: tuple[RobotRecord, ...]


def write_record(folder: Path, type_name: str, config: dict[str, Any], robots: Sequence[RobotRecord]) -> None:
    """Write config.json into a folder that is being filled."""
    record = {
        "format": FORMAT,
        "type": type_name,
        "policy": config,
        "robots": [dataclasses.asdict(robot) for robot in robots],
    }
    (folder / CONFIG_FILE).write_text(json.dumps(record, indent=2) + "\n")


def read_record(folder: Path) -> PolicyRecord:
    """Read config.json back."""
    file = folder / CONFIG_FILE
    record = _read_json(file)
    name = _type_of(record)
    if name is None:
        raise DataError(f"{file} is not the config of a saved policy of format {FORMAT} or 1; save the policy again")
    try:
        robots = tuple(
            RobotRecord(entry["name"], tuple(entry["state_slots"]), tuple(entry["action_slots"]))
            for entry in record["robots"]
        )
        return PolicyRecord(file, name, dict(record["policy"]), robots)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise DataError(f"{file} cannot be read ({type(error).__name__}: {error}); copy the policy again") from error


def declared_type(folder: Path) -> str | None:
    """The type that config.json names; None where the folder is of another layout, or damaged."""
    try:
        return _type_of(_read_json(folder / CONFIG_FILE))
    except DataError:
        return None


def _read_json(file: Path) -> Any:
    if not file.is_file():
        raise DataError(f"{file}: no such file; give the folder of a saved policy")
    return read_json(file, "copy the policy again")


def _type_of(record: Any) -> str | None:
    if not isinstance(record, dict) or not {"policy", "robots"} <= record.keys():
        return None
    if record.get("format") == 1:
        return FIRST_TYPE
    name = record.get("type") if record.get("format") == FORMAT else None
    return name if isinstance(name, str) else None


def save_weights(module: nn.Module, file: Path) -> None:
    """Every tensor of ``module`` in one safetensors file."""
    safetensors = require("safetensors", "lerobot")
    tensors = {name: tensor.contiguous() for name, tensor in module.state_dict().items()}
    try:
        require("safetensors.torch", "lerobot").save_file(tensors, file)
    except safetensors.SafetensorError as error:
        raise OSError(str(error)) from error


def load_weights(module: nn.Module, file: Path, *, assign: bool = False) -> None:
    """Fill every parameter of ``module`` from a safetensors file; the first one that does not fit is named.

    ``assign``: take the file's tensors themselves, for a module whose own are on the meta device.
    """
    with _open_weights(file) as reader:
        _check_tensors(module, reader, file)
        module.load_state_dict({name: reader.get_tensor(name) for name in reader.keys()}, assign=assign)  # noqa: SIM118
    for name, parameter in module.named_parameters():
        if not torch.isfinite(parameter).all():
            raise DataError(f"{file}: the tensor {name!r} holds NaN or infinity; copy or save it again")


def check_weights(module: nn.Module, file: Path) -> None:
    """Refuse a file that does not fit ``module``, which may be on the meta device: nothing is loaded."""
    with _open_weights(file) as reader:
        _check_tensors(module, reader, file)


@contextlib.contextmanager
def _open_weights(file: Path) -> Iterator[Any]:
    safetensors = require("safetensors", "lerobot")
    if not file.is_file():
        raise DataError(f"{file}: no such file")
    try:
        with safetensors.safe_open(file, framework="pt") as reader:
            yield reader
    except safetensors.SafetensorError as error:
        raise DataError(f"{file} is not a whole safetensors file ({error}); copy or save it again") from error


def _check_tensors(module: nn.Module, reader: Any, file: Path) -> None:
    own = module.state_dict()
    slices = {name: reader.get_slice(name) for name in reader.keys()}  # noqa: SIM118
    _check_shapes(own, {name: tuple(part.get_shape()) for name, part in slices.items()}, file)
    for name, tensor in own.items():
        kind = slices[name].get_dtype()
        if (kind in _FLOATS) != tensor.is_floating_point():
            raise DataError(
                f"{file}: the tensor {name!r} holds {kind} values and this policy {tensor.dtype}; save it again"
            )


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
