"""Environments by name, imported when they are asked for: ``--env.type=metaworld``."""

from __future__ import annotations

import importlib
import importlib.metadata

from ptr_robot.envs.base import EnvironmentType
from ptr_robot.errors import ConfigError, did_you_mean

DEFAULT = "metaworld"
ENTRY_POINTS = "ptr_robot.environments"  # where other packages name theirs, as module:class

_BUILT_IN = {
    "libero": "ptr_robot.envs.libero.environment_type:Libero",
    "metaworld": "ptr_robot.envs.metaworld.environment_type:MetaWorld",
    "robocasa": "ptr_robot.envs.robocasa.environment_type:RoboCasa",
}
_REGISTERED: dict[str, type[EnvironmentType]] = {}


def register_environment(environment_type: type[EnvironmentType]) -> type[EnvironmentType]:
    """Make a class of one's own known by its ``name`` in this process; may be used as a decorator.

    A package makes its environments known to every ``ptr`` command by an entry point of the group
    ``ptr_robot.environments``.
    """
    taken = {**_places(), **_REGISTERED}.get(environment_type.name)
    if taken not in (None, environment_type):
        raise ConfigError(f"there is an environment {environment_type.name!r} already; choose another name")
    _REGISTERED[environment_type.name] = environment_type
    return environment_type


def environment_names() -> tuple[str, ...]:
    """Every name that ``--env.type`` takes."""
    return tuple(sorted({**_places(), **_REGISTERED}))


def environment_type(name: str) -> EnvironmentType:
    """The environment of that name; an unknown one is refused with a hint."""
    if name in _REGISTERED:
        return _REGISTERED[name]()
    places = _BUILT_IN if name in _BUILT_IN else _places()  # installed packages take a while to go through
    if name not in places:
        raise ConfigError(f"there is no environment {name!r}; {did_you_mean(name, environment_names())}")
    module, _, attribute = places[name].partition(":")
    try:
        found: EnvironmentType = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"the environment {name!r} ({places[name]}) cannot be imported: {error}") from error
    return found


def _places() -> dict[str, str]:
    """Module and class of every environment that is installed; ours come first."""
    installed = {point.name: point.value for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    return {**installed, **_BUILT_IN}
