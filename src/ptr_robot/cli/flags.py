"""Flags as LeRobot's users know them: ``--a.b=c`` and ``--config_path``, parsed by draccus into a dataclass."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from ptr_robot.errors import ConfigError, did_you_mean, require

Config = TypeVar("Config")


def flag_names(config_class: type, prefix: str = "") -> Iterator[str]:
    """Every dotted flag of a dataclass, nested dataclasses included."""
    hints = typing.get_type_hints(config_class)
    for field in dataclasses.fields(config_class):
        name = prefix + field.name
        yield name
        for kind in (hints[field.name], *typing.get_args(hints[field.name])):
            if dataclasses.is_dataclass(kind) and isinstance(kind, type):
                yield from flag_names(kind, name + ".")


def parse_flags(config_class: type[Config], arguments: Sequence[str], positional: Sequence[str] = ()) -> Config:
    """Parse ``arguments`` into ``config_class``; bare words fill the ``positional`` fields in their order."""
    draccus = require("draccus", "lerobot")
    arguments = _name_positionals(list(arguments), positional)
    known = {*flag_names(config_class), "config_path", "help"}
    for argument in arguments:
        name = argument.split("=", 1)[0].removeprefix("--")
        if argument.startswith("--") and name not in known:
            raise ConfigError(f"there is no flag --{name}; {did_you_mean(name, known)}")
    config_path = next((a.split("=", 1)[1] for a in arguments if a.startswith("--config_path=")), None)
    if config_path is not None and not Path(config_path).is_file():
        raise ConfigError(f"--config_path={config_path}: no such file")
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            parsed: Config = draccus.parse(config_class, args=arguments)
    except SystemExit as exit_request:
        if exit_request.code in (0, None):
            raise
        raise ConfigError(_last_line(complaint.getvalue())) from None
    except draccus.ParsingError as error:
        raise ConfigError(_last_line(str(error))) from error
    return parsed


def _name_positionals(arguments: list[str], positional: Sequence[str]) -> list[str]:
    """Turn bare words into ``--name=word``, and ``--flag value`` into ``--flag=value``."""
    named: list[str] = []
    free = list(positional)
    position = 0
    while position < len(arguments):
        word = arguments[position]
        following = arguments[position + 1] if position + 1 < len(arguments) else None
        if word in ("-h", "--help"):
            named.append("--help")
        elif word.startswith("--") and "=" not in word:
            if following is None or following.startswith("--"):
                raise ConfigError(f"the flag {word} needs a value: {word}=VALUE")
            named.append(f"{word}={following}")
            position += 1
        elif word.startswith("--"):
            named.append(word)
        elif free:
            named.append(f"--{free.pop(0)}={word}")
        else:
            raise ConfigError(f"unexpected word {word!r}; flags are written --name=value")
        position += 1
    return named


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "the flags could not be read"
