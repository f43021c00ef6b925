"""Studies as YAML files: the built-in ones and a user's own, with flags over them; every mistake is one line."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptr_robot.data.robots import load_robot
from ptr_robot.errors import ConfigError, did_you_mean, require
from ptr_robot.study.cells.training import all_settings
from ptr_robot.study.spec.checks import within
from ptr_robot.study.spec.definition import Study
from ptr_robot.study.spec.methods import REGISTRY
from ptr_robot.text_files import read_yaml
from ptr_robot.train.config_file import merged
from ptr_robot.whole_numbers import refuse_absurd_numbers

FULL_SCALE = "full"
BUILT_IN = Path(__file__).parents[1] / "studies"


def built_in_studies() -> dict[str, Path]:
    """The files that come with the package, by name."""
    return {file.stem: file for file in sorted(BUILT_IN.glob("*.yaml"))}


def read_study(source: str, overrides: Mapping[str, Any] | None = None, scale: str | None = None) -> Study:
    """The study of that name or file, with ``overrides`` (nested as the file is) in place of its values.

    ``settings`` and ``methods`` among the overrides are lists of names: those of the file's that are to be run, and
    methods of the registry that the file does not have. ``scale`` is one of the file's own sets of overrides, under
    ``scales``; the file without one is its ``full`` scale.
    """
    path = _find(source)
    place = source if path.parent == BUILT_IN else str(path)  # what complaints begin with
    content = _scaled(_read(path), scale, place)
    changes = dict(overrides or {})
    chosen = changes.pop("settings", None)
    if "methods" in changes:
        content["methods"] = _chosen_methods(place, changes.pop("methods"), content.get("methods") or [])
    content = merged(content, changes)
    content["methods"] = [_expanded(place, entry) for entry in _as_list(place, "methods", content.get("methods"))]
    study = _decode(place, content)
    _check_references(place, study)
    return study if chosen is None else _with_settings(study, chosen)


def _find(source: str) -> Path:
    known = built_in_studies()
    if source in known:
        return known[source]
    path = Path(source).expanduser()
    if path.suffix in (".yaml", ".yml", ".json") and path.is_file():
        return path
    if path.suffix:
        raise ConfigError(f"{source}: there is no such study file")
    raise ConfigError(f"there is no study {source!r}; {did_you_mean(source, known)}")


def _read(path: Path) -> dict[str, Any]:
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must hold a study as name: value")
    return content


def _scaled(content: dict[str, Any], scale: str | None, place: str) -> dict[str, Any]:
    """The file's values with those of one of its scales in their place."""
    scales = content.pop("scales", None) or {}
    if not isinstance(scales, dict) or not all(isinstance(changes, dict) for changes in scales.values()):
        raise ConfigError(f"{place}: scales must map names to values as the study has them")
    if scale in (None, FULL_SCALE):
        return content
    if scale not in scales:
        raise ConfigError(f"{place} has no scale {scale!r}; {did_you_mean(str(scale), [FULL_SCALE, *scales])}")
    return merged(content, scales[scale])


def _decode(place: str, content: dict[str, Any]) -> Study:
    draccus = require("draccus", "lerobot")
    _check_names(Study, content, place)
    try:
        refuse_absurd_numbers("", content)
        study: Study = draccus.decode(Study, content)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    except (draccus.utils.DecodingError, draccus.ParsingError) as error:
        raise ConfigError(f"{place}: {_own_words(error) or _describe(error)}") from error
    return study


def _check_references(place: str, study: Study) -> None:
    """What a study names that lies elsewhere: methods to compare with, robots, and settings of PTR that are swept."""
    rows = {row.name: row for row in study.methods}
    for field in ("baseline", "upper_bound"):
        name = getattr(study, field)
        if name not in rows and name not in REGISTRY:
            raise ConfigError(f"{place}: {field}: no method {name!r}; {did_you_mean(name, [*rows, *REGISTRY])}")
    for name, setting in study.settings.items():
        robot = None if setting.robot is None else study.robot_file_of(setting)
        if robot is not None:
            within(f"{place}: settings.{name}", lambda: load_robot(robot))  # noqa: B023
    if study.sweeps:
        values = all_settings(rows[study.sweep_reference], study.training)
        numbers = [name for name, value in values.items() if isinstance(value, int | float)]
        for name, swept in study.sweeps.items():
            if swept not in numbers:
                hint = did_you_mean(swept, numbers)
                raise ConfigError(f"{place}: sweeps.{name}: {swept!r} is no number among PTR's settings; {hint}")


def _own_words(error: BaseException | None) -> str | None:
    """What a config class said of its values, which draccus wraps in a message of its own."""
    while error is not None and not isinstance(error, ConfigError):
        error = error.__cause__ or error.__context__
    return None if error is None else str(error)


def _describe(error: Any) -> str:
    """Which value could not be read, and why."""
    place = ".".join(getattr(error, "key_path", ()))
    message = str(getattr(error, "message", error))
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    reason = "it has another form" if "Underlying error" in message or not lines else lines[-1]
    return f"{place}: {reason}" if place else reason


def _check_names(kind: Any, content: Any, place: str) -> None:
    """Every name of a file against the fields of the class it becomes, level by level."""
    for part in _members(kind):
        arguments = typing.get_args(part)
        if dataclasses.is_dataclass(part) and isinstance(content, dict):
            hints = typing.get_type_hints(part)
            for name, value in content.items():
                if name not in hints:
                    raise ConfigError(f"{place}: there is no {name!r}; {did_you_mean(str(name), hints)}")
                _check_names(hints[name], value, f"{place}: {name}")
        elif typing.get_origin(part) is dict and isinstance(content, dict):
            for name, value in content.items():
                _check_names(arguments[1], value, f"{place}.{name}")
        elif typing.get_origin(part) is list and isinstance(content, list):
            for number, value in enumerate(content):
                _check_names(arguments[0], value, f"{place}[{number}]")


def _members(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _as_list(place: str, name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"{place}: {name} must be a list")
    return value


def _expanded(place: str, entry: Any) -> dict[str, Any]:
    """A method of the file: a name of the registry, or a row of its own."""
    if isinstance(entry, dict):
        return dict(entry)
    if not isinstance(entry, str):
        raise ConfigError(f"{place}: methods: {entry!r} is neither a method's name nor a row with a name of its own")
    if entry not in REGISTRY:
        raise ConfigError(f"{place}: there is no method {entry!r}; {did_you_mean(entry, REGISTRY)}")
    return dataclasses.asdict(REGISTRY[entry])


def _chosen_methods(place: str, names: list[str], entries: list[Any]) -> list[Any]:
    known: dict[str, Any] = {name: name for name in REGISTRY}
    known |= {_expanded(place, entry).get("name", ""): entry for entry in entries}
    for name in names:
        if name not in known:
            raise ConfigError(f"{place}: there is no method {name!r}; {did_you_mean(name, known)}")
    return [known[name] for name in names]


def _with_settings(study: Study, names: list[str]) -> Study:
    for name in names:
        if name not in study.settings:
            raise ConfigError(f"{study.name} has no setting {name!r}; {did_you_mean(name, study.settings)}")
    parts = {part for name in names for part in study.settings[name].pool}
    wanted = [name for name in study.settings if name in names or name in parts]
    return dataclasses.replace(study, settings={name: study.settings[name] for name in wanted})
