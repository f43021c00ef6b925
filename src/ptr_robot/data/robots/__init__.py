"""Robots: which of their dimensions fill which slots, from the YAML files here or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ptr_robot.data.robots.normalisers import KINDS
from ptr_robot.data.robots.slots import SlotEntry, SlotMap
from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.text_files import read_yaml

FOLDER = Path(__file__).parent
FIELDS = ("robot_types", "state", "action")
ENTRY_FIELDS = ("slot", "size", "normaliser")


@dataclass(frozen=True)
class Robot:
    """A robot's two maps into the unified space, and the ``robot_type`` spellings of datasets it stands for."""

    name: str
    state: SlotMap
    action: SlotMap
    robot_types: tuple[str, ...] = ()


def builtin_robots() -> tuple[str, ...]:
    """The names of the robots that come with the package."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def load_robot(name: str) -> Robot:
    """A built-in robot by name, or one's own by the path of its YAML file."""
    if name.endswith((".yaml", ".yml")):
        return read_robot(Path(name).expanduser())
    if name not in builtin_robots():
        hint = did_you_mean(name, builtin_robots())
        raise ConfigError(f"there is no robot {name!r}; {hint} (or give the path of a YAML file)")
    return read_robot(FOLDER / f"{name}.yaml")


def robot_for_type(robot_type: str | None, dataset: str) -> Robot:
    """The built-in robot that a dataset's ``robot_type`` names."""
    known = {spelling.lower(): robot for robot in _all_builtin() for spelling in (robot.name, *robot.robot_types)}
    robot = known.get((robot_type or "").lower())
    if robot is None:
        hint = did_you_mean(robot_type or "", builtin_robots())
        raise ConfigError(
            f"{dataset}: robot_type {robot_type!r} has no map; {hint}{'' if hint.endswith('?') else '.'} "
            "Set robot to one of them or to a YAML file of your own (docs/add_a_robot.md)"
        )
    return robot


@cache
def _all_builtin() -> tuple[Robot, ...]:
    return tuple(load_robot(name) for name in builtin_robots())


def read_robot(path: Path) -> Robot:
    """A robot from a YAML file; every complaint names the file."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; a robot is a YAML file (docs/add_a_robot.md)")
    content = read_yaml(path)
    try:
        return _parse(path.stem, content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _parse(name: str, content: Any) -> Robot:
    if not isinstance(content, Mapping):
        raise ConfigError("expected the fields state and action, each a list of slots")
    for field in content:
        if field not in FIELDS:
            raise ConfigError(f"there is no field {field!r}; {did_you_mean(str(field), FIELDS)}")
    for field in ("state", "action"):
        if not isinstance(content.get(field), list) or not content[field]:
            raise ConfigError(f"{field} must be a list such as [{{slot: right_arm_joints, size: 7}}]")
    return Robot(
        name=name,
        state=SlotMap(tuple(_parse_entry(entry) for entry in content["state"])),
        action=SlotMap(tuple(_parse_entry(entry) for entry in content["action"])),
        robot_types=tuple(str(spelling) for spelling in content.get("robot_types") or ()),
    )


def _parse_entry(entry: Any) -> SlotEntry:
    if not isinstance(entry, Mapping) or "slot" not in entry or not isinstance(entry.get("size"), int):
        raise ConfigError(f"the entry {entry!r} must read like {{slot: right_arm_joints, size: 7}}")
    for field in entry:
        if field not in ENTRY_FIELDS:
            raise ConfigError(f"there is no field {field!r}; {did_you_mean(str(field), ENTRY_FIELDS)}")
    normaliser = entry.get("normaliser")
    if normaliser is not None and normaliser not in KINDS:
        raise ConfigError(f"there is no normaliser {normaliser!r}; {did_you_mean(str(normaliser), KINDS)}")
    return SlotEntry(str(entry["slot"]), entry["size"], normaliser)
