"""Episode scorers by name: those of this package, and those that a user's own package registers."""

from __future__ import annotations

import importlib
import importlib.metadata
from functools import cache

from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.scorers.base import EpisodeScorer

ENTRY_POINTS = "ptr_robot.scorers"  # the group under which an installed package names its scorer classes
_BUILT_IN = (
    "action_error",
    "neighbours",
    "motion",
    "mutual_information",
    "screening",
    "quality",
)  # modules of this package
_registered: dict[str, type[EpisodeScorer]] = {}


def register_scorer(scorer: type[EpisodeScorer]) -> type[EpisodeScorer]:
    """Make a scorer known by its name; to be used as a decorator of its class."""
    known = _registered.get(scorer.name)
    if known is not None and (known.__module__, known.__qualname__) != (scorer.__module__, scorer.__qualname__):
        raise ConfigError(f"there are two scorers {scorer.name!r}: {known.__module__} and {scorer.__module__}")
    _registered[scorer.name] = scorer
    return scorer


def scorer_names() -> tuple[str, ...]:
    """Every registered scorer, those of this package first."""
    _load_all()
    return tuple(_registered)


def get_scorer(name: str) -> EpisodeScorer:
    """A scorer by its name."""
    _load_all()
    if name not in _registered:
        raise ConfigError(f"there is no scorer {name!r}; {did_you_mean(name, _registered)}")
    return _registered[name]()


@cache
def _load_all() -> None:
    for module in _BUILT_IN:
        importlib.import_module(f"ptr_robot.scorers.{module}")
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        register_scorer(entry.load())
