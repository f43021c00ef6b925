"""Reads JSON and YAML that somebody else wrote: whatever is in it, a complaint is one line that names the file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ptr_robot.errors import ConfigError, DataError, require

_MOST_DIGITS = 18
_MOST_YAML_VALUES = 100_000  # with every alias written out: a few lines of nested ones stand for billions


def read_json(path: Path, remedy: str) -> Any:
    """The content of a JSON file, of whatever type."""
    return parse_json(read_text(path, remedy), str(path), remedy)


def parse_json(text: str, where: str, remedy: str) -> Any:
    """The value of a JSON text; ``where`` says whose it is."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except ValueError as error:
        raise DataError(f"{where}: not valid JSON ({error}); {remedy}") from error
    except RecursionError as error:
        raise DataError(f"{where}: not valid JSON (it is nested too deeply); {remedy}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; which of two fields of one name counts would be a guess."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the field {twice[:200]!r} stands there twice")
    return fields


def read_json_object(path: Path, remedy: str) -> dict[str, Any]:
    """The content of a JSON file that must be an object."""
    content = read_json(path, remedy)
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds a {type(content).__name__}, not an object with fields; {remedy}")
    return content


def read_json_objects(path: Path, remedy: str) -> Iterator[dict[str, Any]]:
    """One object a line; only a newline ends a line, since a text may hold any other separator."""
    for number, line in enumerate(read_text(path, remedy).split("\n"), start=1):
        if line.strip():
            record = parse_json(line, f"{path}, line {number}", remedy)
            if not isinstance(record, dict):
                raise DataError(f"{path}, line {number}: holds a {type(record).__name__}, no mapping; {remedy}")
            yield record


def read_yaml(path: Path) -> Any:
    """The content of a YAML file, of whatever type."""
    yaml = require("yaml", "lerobot")
    try:
        text = read_text(path, "name another file, or mend it")
    except DataError as error:
        raise ConfigError(str(error)) from error
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if _num_values(node, {}) > _MOST_YAML_VALUES:
            raise ConfigError(f"{path}: its aliases stand for more than {_MOST_YAML_VALUES} values; write fewer")
        _refuse_keys_that_stand_twice(path, node, set())
        return None if node is None else loader.construct_document(node)
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(_yaml_complaint(path, error)) from error
    except RecursionError as error:
        raise ConfigError(f"{path}: not valid YAML (it is nested too deeply)") from error


def _yaml_complaint(path: Path, error: Exception) -> str:
    """The file, the line and what stands there, without YAML's own drawing of it."""
    mark = getattr(error, "problem_mark", None)
    place = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
    reason = getattr(error, "problem", None) or str(error)
    return f"{path}{place}: not valid YAML ({' '.join(reason.split())})"


def _num_values(node: Any, known: dict[int, int]) -> int:
    """How many values a YAML node stands for; one that several aliases name is counted by each of them."""
    if node is None or not isinstance(node.value, list):
        return 1
    if id(node) not in known:
        known[id(node)] = _MOST_YAML_VALUES  # for a node that holds itself
        pairs = [child if isinstance(child, tuple) else (child,) for child in node.value]
        known[id(node)] = 1 + sum(_num_values(part, known) for pair in pairs for part in pair)
    return known[id(node)]


def _refuse_keys_that_stand_twice(path: Path, node: Any, seen: set[int]) -> None:
    """YAML would let the last one win; ``<<`` may stand twice, since it is no key."""
    if node is None or not isinstance(node.value, list) or id(node) in seen:
        return
    seen.add(id(node))
    names: set[tuple[str, str]] = set()
    for child in node.value:
        for part in child if isinstance(child, tuple) else (child,):
            _refuse_keys_that_stand_twice(path, part, seen)
        key = child[0] if isinstance(child, tuple) else None
        if key is None or not isinstance(key.value, str) or key.tag == "tag:yaml.org,2002:merge":
            continue
        if (key.tag, key.value) in names:
            place = f"{path}, line {key.start_mark.line + 1}"
            raise ConfigError(f"{place}: {key.value[:200]!r} stands there twice; take one out")
        names.add((key.tag, key.value))


def printable(text: str) -> str:
    """``text`` on one line, in which nothing steers the terminal: other people's names are shown."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def is_episode_number(name: str) -> bool:
    """Whether the name of a JSON field is the number of an episode, spelt the one way: "7", neither "07" nor "+7"."""
    return name.isascii() and name.isdecimal() and len(name) <= _MOST_DIGITS and name == str(int(name))


def read_text(path: Path, remedy: str) -> str:
    """The content of a text file."""
    try:
        if not path.is_file():
            raise DataError(f"{path}: no such file; {remedy}")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a text in UTF-8 ({error}); {remedy}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
