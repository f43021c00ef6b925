"""Flags as LeRobot's users know them: ``--a.b=c`` and ``--config_path``, parsed by draccus into a dataclass."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

from ptr_robot.cli.flag_values import describe_mistake, spell
from ptr_robot.cli.help_text import flag_comments, readable_help
from ptr_robot.errors import ConfigError, PTRError, did_you_mean, require
from ptr_robot.text_files import read_yaml
from ptr_robot.whole_numbers import refuse_absurd_numbers

Config = TypeVar("Config")
BOOLEANS = ("true", "false", "True", "False")
program: ContextVar[str] = ContextVar("program", default="ptr")  # what help calls the command


def flag_names(config_class: type, prefix: str = "") -> Iterator[str]:
    """Every dotted flag of a dataclass, nested dataclasses included."""
    return (name for name, _ in _flags(config_class, prefix))


def _flags(config_class: type, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every dotted flag with its type."""
    hints = typing.get_type_hints(config_class)
    for field in dataclasses.fields(config_class):
        name, kind = prefix + field.name, hints[field.name]
        yield name, kind
        for part in (kind, *typing.get_args(kind)):
            if dataclasses.is_dataclass(part) and isinstance(part, type):
                yield from _flags(part, name + ".")


def parse_flags(config_class: type[Config], arguments: Sequence[str], positional: Sequence[str] = ()) -> Config:
    """Parse ``arguments`` into ``config_class``; bare words fill the ``positional`` fields in their order."""
    draccus = require("draccus", "lerobot")
    kinds = dict(_flags(config_class))
    switches = {name for name, kind in kinds.items() if kind is bool}
    known = {*kinds, "config_path", "help"}
    for name in (word.removeprefix("--").partition("=")[0] for word in arguments if word.startswith("--")):
        if name not in known:
            hint = did_you_mean(name, known)
            raise ConfigError(
                f"there is no flag --{name}; {hint if len(hint) < 100 else f'see {program.get()} --help'}"
            )
    arguments = _name_positionals(list(arguments), positional, switches)
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if name == "config_path":
            _check_config_file(Path(value), config_class)
    spelled = [spell(argument, kinds) for argument in arguments]
    complaint, answer = io.StringIO(), io.StringIO()
    try:
        with (
            contextlib.redirect_stderr(complaint),
            contextlib.redirect_stdout(answer),
            flag_comments(are_read="--help" in spelled),
        ):
            parsed: Config = draccus.parse(config_class, args=spelled, prog=program.get())
    except SystemExit as exit_request:
        if exit_request.code in (0, None):
            words = "".join(f" [{name.upper()}]" for name in positional)
            sys.stdout.write(readable_help(answer.getvalue(), program.get() + words))
            raise
        raise ConfigError(_last_line(complaint.getvalue())) from None
    except json.JSONDecodeError as error:  # what is no JSON may still be YAML, as which the file was checked
        raise ConfigError(f"{given_value(arguments, 'config_path')} is no JSON: {error}; mend it") from None
    except draccus.utils.DecodingError as error:
        mistake = describe_mistake(error.key_path, error.message, kinds)
        raise _own_error(error) or ConfigError(mistake) from error
    except draccus.ParsingError as error:
        raise _own_error(error) or ConfigError(_last_line(str(error))) from error
    return parsed


def refuse_renamed(arguments: Sequence[str], renamed: Mapping[str, str]) -> None:
    """Name the present flag to who writes one of an earlier version."""
    for word in arguments:
        name = word.removeprefix("--").partition("=")[0]
        if word.startswith("--") and name in renamed:
            raise ConfigError(f"--{name} is now --{renamed[name]}; see {program.get()} --help")


def given_value(arguments: Sequence[str], name: str) -> str | None:
    """The value of a flag, written ``--name=value``, ``--name value`` or, for a switch, ``--name``."""
    for place, word in enumerate(arguments):
        if word.startswith(f"--{name}="):
            return word.partition("=")[2]
        if word == f"--{name}":
            following = arguments[place + 1] if place + 1 < len(arguments) else "--"
            return "true" if following.startswith("--") else following
    return None


def without_flag(arguments: Sequence[str], name: str) -> list[str]:
    """The arguments but for one flag and its value."""
    kept: list[str] = []
    is_value = False
    for word in arguments:
        if is_value:
            is_value = False
        elif word == f"--{name}":
            is_value = True
        elif not word.startswith(f"--{name}="):
            kept.append(word)
    return kept


def _check_config_file(path: Path, config_class: type) -> None:
    """Refuse a file that is no mapping of known settings, before draccus meets it."""
    try:
        settings = read_yaml(path)
    except PTRError as error:
        raise ConfigError(f"--config_path={error}") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"--config_path={path}: must hold settings as name: value")
    _check_names(path, settings, config_class)
    try:
        refuse_absurd_numbers("", settings)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _check_names(path: Path, settings: dict[object, object], config_class: type, place: str = "") -> None:
    """Refuse settings that do not exist, at any depth, with the closest that do."""
    hints = typing.get_type_hints(config_class)
    known = [field.name for field in dataclasses.fields(config_class)]
    for name, value in settings.items():
        if name not in known:
            raise ConfigError(f"{path}: there is no setting {f'{place}{name}'!r}; {did_you_mean(str(name), known)}")
        kind = hints[str(name)]
        group = next((part for part in (kind, *typing.get_args(kind)) if dataclasses.is_dataclass(part)), None)
        is_one = not isinstance(value, list) and typing.get_origin(kind) not in (list, dict)
        if isinstance(group, type) and is_one and value is not None:
            if not isinstance(value, dict):
                raise ConfigError(f"{path}: {place}{name} is a group of settings; write {name}: {{setting: value}}")
            _check_names(path, value, group, f"{place}{name}.")


def _name_positionals(arguments: list[str], positional: Sequence[str], switches: set[str]) -> list[str]:
    """Turn bare words into ``--name=word``, ``--flag value`` and a bare ``--switch`` into ``--flag=value``."""
    named: list[str] = []
    free = list(positional)
    position = 0
    while position < len(arguments):
        word = arguments[position]
        following = arguments[position + 1] if position + 1 < len(arguments) else None
        if word in ("-h", "--help"):
            named.append("--help")
        elif word.removeprefix("--") in switches and word.startswith("--") and following not in BOOLEANS:
            named.append(f"{word}=true")
        elif word.startswith("--") and "=" not in word:
            if following is None or following.startswith("--"):
                raise ConfigError(f"the flag {word} needs a value: {word}=VALUE")
            named.append(f"{word}={following}")
            position += 1
        elif word.startswith("--"):
            named.append(word)
        elif word.startswith("-"):
            raise ConfigError(f"unexpected {word!r}; flags are written --name=value")
        elif free:
            named.append(f"--{free.pop(0)}={word}")
        else:
            raise ConfigError(f"unexpected word {word!r}; flags are written --name=value")
        position += 1
    return named


def _own_error(error: BaseException | None) -> PTRError | None:
    """What a config class said of its values, which draccus wraps in a message of its own."""
    while error is not None and not isinstance(error, PTRError):
        error = error.__cause__ or error.__context__
    return error


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "the flags could not be read"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
