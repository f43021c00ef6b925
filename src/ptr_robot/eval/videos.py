"""Rollouts as MP4 files to watch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptr_robot.envs.base import Image
from ptr_robot.errors import DataError, require


def write_video(path: Path, frames: Sequence[Image], frames_per_second: int) -> None:
    """Write an H.264 video at the simulator's pace, atomically."""
    imageio = require("imageio.v2", "sim")
    partial = path.with_name(f".partial-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        imageio.mimwrite(partial, frames, fps=frames_per_second, macro_block_size=2)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"{path} could not be written ({error})") from error
