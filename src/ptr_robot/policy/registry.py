"""Types of policies by name: those of this package, and those that a user's own package registers."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import pkgutil
import shutil
from collections.abc import Sequence
from pathlib import Path

from ptr_robot.errors import ConfigError, DataError, did_you_mean
from ptr_robot.files import refuse_foreign_files
from ptr_robot.policy.interface import Policy, PolicyShape
from ptr_robot.policy.policy_files import declared_type, read_record
from ptr_robot.policy.policy_type import PolicyType, SavedPolicy
from ptr_robot.policy.robot_record import RobotRecord

DEFAULT_TYPE = "vla"
ENTRY_POINTS = "ptr_robot.policies"  # of a package's metadata: type name = "package.module"
PACKAGES_VARIABLE = "PTR_ROBOT_POLICY_PACKAGES"  # packages to look into, separated by commas; child processes see it
_OWN_MODULES = {
    "vla": "ptr_robot.policy.vla.registration",
    "being-h": "ptr_robot.policy.being_h.registration",
}

_types: dict[str, PolicyType] = {}


def register_policy(kind: PolicyType) -> PolicyType:
    """Make a type known under its name."""
    if _types.get(kind.name, kind) != kind:
        raise ConfigError(f"there are two policy types {kind.name!r}; rename one of them")
    if kind.choice.type != kind.name:
        raise ConfigError(
            f"{kind.choice.__name__}.type is {kind.choice.type!r}; it must be its policy type's name, {kind.name!r}"
        )
    _types[kind.name] = kind
    return kind


def policy_type(name: str) -> PolicyType:
    """The type of that name; what it takes is imported now."""
    if name not in _types:
        _import_what_offers(name)
    if name not in _types:
        raise ConfigError(
            f"there is no policy type {name!r} (another package's needs --policy.discover_packages_path=PACKAGE); "
            f"{did_you_mean(name, _offered())}"
        )
    return _types[name]


def discover_packages(package: str) -> None:
    """Import a package with its modules, so that they register their types here and in child processes."""
    _import_package(package)
    known = [name for name in os.environ.get(PACKAGES_VARIABLE, "").split(",") if name]
    os.environ[PACKAGES_VARIABLE] = ",".join(dict.fromkeys([*known, package]))


def type_of(policy: Policy) -> PolicyType:
    """The type whose class the policy is of."""
    for kind in (*map(policy_type, _OWN_MODULES), *_types.values()):
        if type(policy) is kind.policy:
            return kind
    raise ConfigError(
        f"{type(policy).__name__} belongs to no registered policy type; register one with register_policy "
        "(docs/add_a_policy.md)"
    )


def recognised_type(folder: Path) -> PolicyType:
    """The type of the policy that a folder holds, by its config.json or by a layout that one type knows."""
    if (name := declared_type(folder)) is not None:
        return policy_type(name)
    for name in _offered():
        if policy_type(name).recognises(folder):
            return policy_type(name)
    raise DataError(f"{read_record(folder).file} is of no known layout")  # read_record says what is wrong, if it can


def save_policy(policy: Policy, folder: Path, robots: Sequence[RobotRecord] = ()) -> Path:
    """Write the policy into a new folder, atomically."""
    kind = type_of(policy)
    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another folder or remove it")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # what an interrupted save left behind
    try:
        partial.mkdir(parents=True)
        kind.save(policy, partial, robots)
        partial.replace(folder)
    except OSError as error:
        raise DataError(f"{folder} could not be written: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def load_policy(folder: Path) -> SavedPolicy:
    """Read a policy back; it predicts what it predicted when it was saved."""
    if folder.is_dir():
        refuse_foreign_files(folder, may_link_out=True)  # libraries that read it would wait for a pipe
    return recognised_type(folder).load(folder)


def read_policy_config(folder: Path) -> PolicyShape:
    """What a saved policy is made of, without its weights."""
    return recognised_type(folder).read_config(folder)


def _offered() -> list[str]:
    """The names of all types that can be had, imported or not."""
    for package in filter(None, os.environ.get(PACKAGES_VARIABLE, "").split(",")):
        _import_package(package)
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return list(dict.fromkeys([*_OWN_MODULES, *_types, *(point.name for point in points)]))


def _import_what_offers(name: str) -> None:
    if name in _OWN_MODULES:
        importlib.import_module(_OWN_MODULES[name])
        return
    _offered()  # imports the packages of the environment's variable
    try:
        for point in importlib.metadata.entry_points(group=ENTRY_POINTS, name=name):
            point.load()
    except Exception as error:  # whatever a foreign package may raise
        raise ConfigError(
            f"the package of the policy type {name!r} cannot be imported ({_one_line(error)}); repair or uninstall it"
        ) from error


def _import_package(package: str) -> None:
    try:
        module = importlib.import_module(package)
        for entry in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{package}."):
            importlib.import_module(entry.name)
    except ConfigError:
        raise
    except Exception as error:  # whatever a foreign package may raise
        raise ConfigError(
            f"policy.discover_packages_path={package} cannot be imported ({_one_line(error)}); install the package, "
            "or put its folder on PYTHONPATH"
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
