"""Tensors in safetensors files: nothing is unpickled."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from ptr_robot.errors import DataError, require


def save_tensors(tensors: dict[str, Tensor], file: Path) -> None:
    """A safetensors file; what the disk refuses is an OSError."""
    safetensors = require("safetensors", "lerobot")
    try:
        require("safetensors.torch", "lerobot").save_file(
            {name: tensor.detach().contiguous() for name, tensor in tensors.items()}, file
        )
    except safetensors.SafetensorError as error:
        raise OSError(str(error)) from error


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Read a safetensors file back."""
    safetensors = require("safetensors", "lerobot")
    try:
        tensors: dict[str, Tensor] = require("safetensors.torch", "lerobot").load_file(file)
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{file} cannot be read ({error}); resume from another checkpoint") from error
    return tensors
