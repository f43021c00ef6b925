"""Values as JSON has them: what is not finite gets a name, since JSON has none for it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ptr_robot.files import atomic_file


def json_values(value: Any) -> Any:
    """NaN, which stands for what is not known, becomes null; an infinite limit becomes "inf"."""
    if isinstance(value, dict):
        return {str(name): json_values(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def write_json(path: Path, value: Any) -> None:
    """Write the file atomically."""
    with atomic_file(path) as file:
        file.write((json.dumps(json_values(value), indent=1, allow_nan=False) + "\n").encode())
