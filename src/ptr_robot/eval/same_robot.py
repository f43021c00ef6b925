"""Whether a policy's actions mean what an environment's do: sizes alone do not tell robots apart.

Seven numbers are a pose and a gripper, or six joints of another arm and its gripper. So the slots of actions are
compared with those of the maps that the environment comes with. Of actions alone: the state of a simulator, which knows
objects and goals, is given whatever slots are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ptr_robot.data.robots import FOLDER as BUILT_IN
from ptr_robot.data.robots import Robot, builtin_robots, load_robot, read_robot
from ptr_robot.data.robots.slots import SlotMap
from ptr_robot.envs.base import EnvironmentType
from ptr_robot.errors import ConfigError
from ptr_robot.train.sources import SourceRecord


def of_same_robot(
    path: str, sources: Sequence[SourceRecord], numbers: Sequence[int], environment_type: EnvironmentType
) -> list[int]:
    """Those of the sources ``numbers`` whose actions have slots of the environment's; if it has no map, all of them."""
    own = _own_actions(environment_type)
    same = [number for number in numbers if not own or _places(sources[number].action_map.slots) in own]
    if not same:
        raise _other_robot(path, sources[numbers[0]], environment_type, own.values())
    return same


def _own_actions(environment_type: EnvironmentType) -> dict[tuple[int, ...], SlotMap]:
    """The different maps of actions that an environment comes with, by their places."""
    robots = [robot for robot in map(load_robot, builtin_robots()) if _is_named(robot, environment_type.name)]
    usual = Path(environment_type.robot_file(None))
    files = {usual} if usual.is_file() else set()
    if environment_type.robots_folder.resolve() != BUILT_IN.resolve():  # there lie the maps of every robot
        files |= set(environment_type.robots_folder.glob("*.yaml"))
    robots += [read_robot(file) for file in sorted(files)]
    size = environment_type.action.size
    return {_places(robot.action): robot.action for robot in robots if robot.action.size == size}


def _is_named(robot: Robot, name: str) -> bool:
    return name.lower() in (spelling.lower() for spelling in (robot.name, *robot.robot_types))


def _places(slots: SlotMap) -> tuple[int, ...]:
    return tuple(int(place) for place in slots.places)


def _other_robot(
    path: str, source: SourceRecord, environment_type: EnvironmentType, own: Iterable[SlotMap]
) -> ConfigError:
    title = environment_type.title
    return ConfigError(
        f"{path} was trained for {source.robot}, whose actions are {_parts(source.action_map.slots)}; {title} takes "
        f"{' or '.join(map(_parts, own))}: evaluate a policy that was trained on {title}, or, if the numbers mean the "
        "same, set --policy.allow_other_robot=true"
    )


def _parts(slots: SlotMap) -> str:
    return " + ".join(f"{entry.size} {entry.slot}" for entry in slots.entries)
