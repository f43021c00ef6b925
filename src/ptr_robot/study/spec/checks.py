"""What the parts of a study ask of their values; each complaint is one line that names its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ptr_robot.errors import ConfigError

Built = TypeVar("Built")


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a number below its limit."""
    if value < least:
        raise ConfigError(f"{name} is {value}; it must be at least {least}")


def within(place: str, build: Callable[[], Built]) -> Built:
    """Let the class that a setting is for complain about it, before anything runs."""
    try:
        return build()
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def once(name: str, values: list[Any]) -> None:
    """Refuse a value that stands in a list twice."""
    repeated = next((value for value in values if values.count(value) > 1), None)
    if repeated is not None:
        raise ConfigError(f"{name}: {repeated!r} stands there twice; name each once")
