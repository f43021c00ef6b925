"""Opens video files that somebody else wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ptr_robot.errors import require


def open_video(path: Path) -> Any:
    """A PyAV container; titles and the like, which nobody reads, may be in any encoding."""
    return require("av", "lerobot").open(str(path), metadata_errors="replace")
