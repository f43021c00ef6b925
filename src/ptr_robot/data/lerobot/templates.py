"""The paths of a dataset's files, from the templates in ``meta/info.json``: plain fields and nothing else.

Python's own ``str.format`` would look up attributes and pad to any width that a dataset asks for.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptr_robot.errors import DataError
from ptr_robot.files import path_inside

_INTEGER_SPEC = re.compile(r"(?:0?[0-9]{1,2})?d?")  # "", "d", "6", "06d"
_WIDEST = 20  # digits


def place_file(root: Path, info: Mapping[str, Any], field: str, place: Mapping[str, Any]) -> Path:
    """The file that the template ``field`` of ``meta/info.json`` names, inside the dataset's folder."""
    template, where = info.get(field), root / "meta" / "info.json"
    if not isinstance(template, str):
        raise DataError(f"{where}: {field} is {template!r}; it must be a template with {', '.join(place)}")
    try:
        name = fill_template(template, place)
    except ValueError as error:
        known = ", ".join(place)
        raise DataError(
            f"{where}: {field} is {template[:200]!r}; it can use {known} and nothing else ({error})"
        ) from error
    try:
        return path_inside(root, name)
    except DataError as error:
        raise DataError(f"{where}: {field} is {template[:200]!r}, and {error}") from error


def fill_template(template: str, fields: Mapping[str, Any]) -> str:
    """``template`` with its fields filled in: whole numbers, padded to a few digits at most, and texts as they are."""
    filled = []
    for text, name, spec, conversion in string.Formatter().parse(template):
        filled.append(text)
        if name is not None:
            if name not in fields or conversion is not None:
                raise ValueError(f"there is no field {name[:60]!r}")
            filled.append(_fill(name, fields[name], spec or ""))
    return "".join(filled)


def _fill(name: str, value: Any, spec: str) -> str:
    if isinstance(value, str) and not spec:
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is {value!r}, not a whole number")
    width = spec.removesuffix("d") or "0"
    if _INTEGER_SPEC.fullmatch(spec) is None or int(width) > _WIDEST:
        raise ValueError(f"{{{name}:{spec[:60]}}} is not a plain number of at most {_WIDEST} digits")
    return format(value, spec)
