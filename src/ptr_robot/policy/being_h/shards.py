"""The tensors of a checkpoint folder, in one safetensors file or many; nothing else is opened, nothing unpickled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ptr_robot.errors import DataError, require
from ptr_robot.policy.being_h.tensor_names import present_name
from ptr_robot.text_files import read_json

INDEX_FILE = "model.safetensors.index.json"


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies."""

    file: Path
    stored_name: str
    shape: tuple[int, ...]


def list_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Every tensor under its present name; shapes come from the headers, no data are read."""
    found: dict[str, StoredTensor] = {}
    for file in _files(folder):
        found |= _list_file(file)
    return found


def _list_file(file: Path) -> dict[str, StoredTensor]:
    safetensors = require("safetensors", "lerobot")
    try:
        with safetensors.safe_open(file, framework="pt") as reader:
            shapes = {name: tuple(reader.get_slice(name).get_shape()) for name in reader.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError) as error:
        raise DataError(f"{file} is not a whole safetensors file ({error}); fetch it again") from error
    return {present_name(name): StoredTensor(file, name, shape) for name, shape in shapes.items()}


def read_tensors(stored: dict[str, StoredTensor]) -> Iterator[tuple[str, Tensor]]:
    """The tensors one after the other, each file opened once."""
    safetensors = require("safetensors", "lerobot")
    for file in dict.fromkeys(entry.file for entry in stored.values()):
        with safetensors.safe_open(file, framework="pt") as reader:
            for name, entry in stored.items():
                if entry.file == file:
                    yield name, reader.get_tensor(entry.stored_name)


def _files(folder: Path) -> list[Path]:
    """The shards that the index names, or every safetensors file where there is no index."""
    index = folder / INDEX_FILE
    files = sorted(folder.glob("*.safetensors")) if not index.is_file() else _indexed(index)
    if not files:
        raise DataError(f"{folder} holds no .safetensors file; give a folder with the checkpoint's weights")
    return files


def _indexed(index: Path) -> list[Path]:
    try:
        names = sorted(set(read_json(index, "fetch it again")["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DataError(f"{index} is not an index of shards ({error}); fetch it again") from error
    files = []
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise DataError(f"{index} names the shard {name!r}, which is not a file of its own folder")
        if not (index.parent / name).is_file():
            raise DataError(f"{index.parent} lacks the shard {name!r}, which its index names; fetch it again")
        files.append(index.parent / name)
    return files
