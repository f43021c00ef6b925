"""Training methods by name: those of this package, and those that a user's own package registers."""

from __future__ import annotations

import importlib
import importlib.metadata
from functools import cache

from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.train.methods.base import TrainingMethod

ENTRY_POINTS = "ptr_robot.methods"  # the group under which an installed package names its method classes
_BUILT_IN = ("sft", "ptr", "screened")  # modules of this package
_methods: dict[str, TrainingMethod] = {}  # by name and by alias


def register_method(method: type[TrainingMethod]) -> type[TrainingMethod]:
    """Make a method known by its name and aliases; to be used as a decorator of its class."""
    for name in (method.name, *method.aliases):
        known = _methods.get(name)
        if known is not None and type(known).__qualname__ != method.__qualname__:
            raise ConfigError(f"there are two training methods {name!r}: {type(known).__module__}, {method.__module__}")
        _methods[name] = method()
    return method


def training_method(name: str) -> TrainingMethod:
    """A method by its name or an alias; its ``name`` is what everything else calls it."""
    _load_all()
    if name not in _methods:
        raise ConfigError(f"there is no method {name!r}; {did_you_mean(name, _methods)}")
    return _methods[name]


@cache
def _load_all() -> None:
    for module in _BUILT_IN:
        importlib.import_module(f"ptr_robot.train.methods.{module}")
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        register_method(entry.load())
