"""Where LeRobot looks for the policies of ``configuration_ptr``; each is imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "PTRACTPolicy": "ptr_robot.lerobot.act",
    "PTRDiffusionPolicy": "ptr_robot.lerobot.diffusion",
    "PTRSmolVLAPolicy": "ptr_robot.lerobot.smolvla",
    "PTRVLAPolicy": "ptr_robot.lerobot.vla",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
