"""The names of Meta-World's tasks and the instructions that LeRobot gives them."""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path

from ptr_robot.errors import ConfigError, MissingExtraError, did_you_mean

# Where LeRobot 0.4 keeps its instructions, inside its package.
_INSTRUCTIONS_FILE = "envs/metaworld_config.json"


@functools.cache
def instructions() -> dict[str, str]:
    """The instruction of every Meta-World task, as LeRobot's own environment words it.

    The file is read without importing LeRobot, whose import takes seconds in every worker process.
    """
    spec = importlib.util.find_spec("lerobot")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("lerobot is not installed; install it with: pip install 'ptr-robot[sim]'")
    path = Path(spec.submodule_search_locations[0]) / _INSTRUCTIONS_FILE
    if not path.is_file():
        raise MissingExtraError(f"{path}: this LeRobot has no Meta-World instructions; install lerobot==0.4.4")
    descriptions: dict[str, str] = json.loads(path.read_text())["TASK_DESCRIPTIONS"]
    return descriptions


def task_names() -> list[str]:
    """Every task, in alphabetical order."""
    return sorted(instructions())


def resolve_task(name: str) -> str:
    """The full name of a task; the version may be left out (``reach`` is ``reach-v3``)."""
    known = instructions()
    for candidate in (name, f"{name}-v3"):
        if candidate in known:
            return candidate
    raise ConfigError(f"there is no Meta-World task {name!r}; {did_you_mean(name, known)}")
