"""How a flag is written: what users type becomes what draccus reads, and a wrong value is shown the right form."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping

from ptr_robot.errors import ConfigError, require
from ptr_robot.whole_numbers import refuse_absurd_numbers

_NULLS = ("null", "~")
_EXAMPLES: dict[object, tuple[str, str]] = {int: ("1", "2"), float: ("0.5", "1.0"), bool: ("true", "false")}


def spell(argument: str, kinds: Mapping[str, object]) -> str:
    """``--name=value`` in YAML, which draccus takes every value for.

    Words stay words (as YAML a folder ``007`` is the number 7), and a list may be written without its brackets.
    """
    name, has_value, value = argument.removeprefix("--").partition("=")
    kind = kinds.get(name, str)
    alternatives = _alternatives(kind)
    if not has_value or (type(None) in alternatives and value in _NULLS):
        return argument
    if not value:
        raise ConfigError(f"--{name} is empty; give it a value, or take it out")
    if str in alternatives:
        return f"--{name}={json.dumps(value, ensure_ascii=False)}"
    if any(typing.get_origin(part) in (list, tuple) for part in alternatives) and not value.startswith("["):
        value = f"[{value}]"
    yaml = require("yaml", "lerobot")
    try:
        loaded = yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"--{name}={value[:200]}: not valid YAML; {expected_form(name, kind)}") from error
    refuse_absurd_numbers(f"--{name}", loaded)
    return f"--{name}={value}"


def describe_mistake(key_path: typing.Sequence[str], message: str, kinds: Mapping[str, object]) -> str:
    """One line for a value that draccus could not read: the flag, and what was expected."""
    name = ".".join(key_path)
    if "Underlying error" in message:  # of Python's, about draccus's own workings
        return expected_form(name, kinds.get(name, str))
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return f"--{name}: {lines[-1]}" if name else lines[-1]


def expected_form(name: str, kind: object) -> str:
    """A sentence that shows how the flag is written."""
    part = next(part for part in _alternatives(kind) if part is not type(None))
    origin, members = typing.get_origin(part), typing.get_args(part)
    if dataclasses.is_dataclass(part):
        return f"--{name} is a group of flags; write --{name}.{dataclasses.fields(part)[0].name}=VALUE"
    if origin in (list, tuple):
        first, second = _EXAMPLES.get(members[0], ("first", "second"))
        return f"--{name} is a list; write --{name}='[{first}, {second}]'"
    if origin is dict:
        first, second = _EXAMPLES.get(members[1], ("one", "another"))
        return f"--{name} maps names to values; write --{name}='{{first: {first}, second: {second}}}'"
    return f"write --{name}=VALUE"


def _alternatives(kind: object) -> tuple[object, ...]:
    """The members of a union, or the kind alone."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)
