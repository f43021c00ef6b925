"""The flags ``--policy.*`` of ``ptr train``: which they are depends on the type of the policy."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptr_robot.cli.flags import given_value, parse_flags, without_flag
from ptr_robot.errors import DataError, PTRError
from ptr_robot.policy.policy_type import PolicyType
from ptr_robot.policy.registry import DEFAULT_TYPE, discover_packages, policy_type, recognised_type
from ptr_robot.text_files import read_yaml
from ptr_robot.train.config import TrainConfig
from ptr_robot.train.trained import pretrained_folder

PACKAGES_FLAG = "policy.discover_packages_path"


def import_packages(arguments: Sequence[str]) -> list[str]:
    """Import the packages that the flag names, as LeRobot's flag does; gives the other arguments.

    A file of settings cannot name them: what a downloaded run brings along must not decide what is imported.
    """
    names = given_value(arguments, PACKAGES_FLAG) or ""
    for package in filter(None, (name.strip() for name in names.split(","))):
        discover_packages(package)
    return without_flag(arguments, PACKAGES_FLAG)


def parse_train_flags(arguments: Sequence[str]) -> TrainConfig:
    """The settings of a run, with the flags of the policy that they name."""
    parsed = parse_flags(_train_config_with(_chosen_type(arguments)), arguments)
    return TrainConfig(**{entry.name: getattr(parsed, entry.name) for entry in dataclasses.fields(TrainConfig)})


def _chosen_type(arguments: Sequence[str]) -> PolicyType:
    """That of the flags, of the file, or of the policy that one of them names."""
    in_file = _policy_of_file(given_value(arguments, "config_path"))
    name = given_value(arguments, "policy.type") or in_file.get("type")
    if name is not None:
        return policy_type(str(name))
    path = given_value(arguments, "policy.path") or in_file.get("path")
    try:
        return recognised_type(pretrained_folder(Path(str(path)))) if path else policy_type(DEFAULT_TYPE)
    except DataError:
        return policy_type(DEFAULT_TYPE)  # whose loading says what is wrong with the folder


def _policy_of_file(path: str | None) -> dict[str, Any]:
    """Settings of the policy in a file; what cannot be read is named when all of it is."""
    try:
        settings = read_yaml(Path(path).expanduser()) if path else None
    except PTRError:
        return {}
    policy = settings.get("policy") if isinstance(settings, dict) else None
    return policy if isinstance(policy, dict) else {}


@functools.cache
def _train_config_with(kind: PolicyType) -> type[TrainConfig]:
    """``TrainConfig`` whose policy has the flags of one type; help finds its comments by the class's name."""
    own = vars(TrainConfig)
    namespace = {name: own[name] for name in ("__doc__", "__firstlineno__") if name in own}
    policy = ("policy", kind.choice, dataclasses.field(default_factory=kind.choice))
    made: type[TrainConfig] = dataclasses.make_dataclass(
        TrainConfig.__name__, [policy], bases=(TrainConfig,), namespace=namespace, frozen=True
    )
    made.__module__ = TrainConfig.__module__  # from Python 3.12 on it is that of the caller
    return made
