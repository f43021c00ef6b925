"""One row of a study's tables: what is trained, on which episodes, and how much each episode counts."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Any

from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.method.ptr.config import APPLY, PTRConfig
from ptr_robot.scorers import scorer_names
from ptr_robot.study.spec.names import check_name
from ptr_robot.train.config import unread_setting
from ptr_robot.train.config_file import flattened
from ptr_robot.train.methods.registry import training_method

TRUTH = "truth"  # in place of a rule: the ground truth, for rows that no user can have


@dataclass(frozen=True)
class EpisodeFilter:
    """Which episodes stay: the clean ones by the ground truth, or the better part by a rule."""

    # truth, or the name of a rule.
    by: str
    # Of each task, the share that stays; the truth keeps what is clean.
    keep: float = 0.5

    def __post_init__(self) -> None:
        _check_rule("filter.by", self.by)
        if not 0 < self.keep <= 1:
            raise ConfigError(f"filter.keep is {self.keep}; it must lie above 0 and not above 1")


@dataclass(frozen=True)
class EpisodeWeighting:
    """How much each episode counts: ``clip(exp(z / beta))`` of the standardised rule, or by the ground truth."""

    # truth, or the name of a rule.
    by: str
    beta: float = 1.0
    # What the worst may weigh; by the truth, what every faulty episode weighs.
    w_min: float = 0.25
    # What the best may weigh; by the truth, what every good episode weighs.
    w_max: float = 4.0

    def __post_init__(self) -> None:
        _check_rule("weighting.by", self.by)
        if not self.beta > 0:
            raise ConfigError(f"weighting.beta is {self.beta}; it must be above 0")
        if not 0 <= self.w_min <= 1 <= self.w_max:
            raise ConfigError(f"weighting goes from {self.w_min} to {self.w_max}; needed: 0 <= w_min <= 1 <= w_max")


@dataclass(frozen=True)
class MethodRow:
    """A method of ``ptr train`` with changes to its settings, and what is done to the data before."""

    name: str
    title: str = ""
    # Of ptr train.
    method: str = "sft"
    # Changes to PTR's settings, nested as in the flags: {weights: {alpha: 0}}.
    ptr: dict[str, Any] = field(default_factory=dict)
    filter: EpisodeFilter | None = None
    weighting: EpisodeWeighting | None = None
    # loss or sampler: how weights are applied, whoever finds them.
    apply: str = "loss"
    # A factor on the study's batch, for the row that shows whether the baseline is trained out.
    batch_factor: int = 1

    def __post_init__(self) -> None:
        check_name("method", self.name)
        if self.apply not in APPLY:
            raise ConfigError(f"{self.name}: apply is {self.apply!r}; {did_you_mean(self.apply, APPLY)}")
        if self.batch_factor < 1:
            raise ConfigError(f"{self.name}: batch_factor is {self.batch_factor}; it must be at least 1")
        try:
            training_method(self.method)
        except ConfigError as error:
            raise ConfigError(f"{self.name}: {error}") from error
        config = self.ptr_config(steps=1, log_freq=1)
        if (unread := unread_setting(config, flattened(self.ptr))) is not None:
            name, why = unread
            raise ConfigError(f"{self.name}: ptr.{name} would change nothing: the method {self.method!r} {why}")

    @property
    def knows_the_truth(self) -> bool:
        """Whether it is told which episodes are faulty: what it says of them shows nothing."""
        return TRUTH in {judge.by for judge in (self.filter, self.weighting) if judge is not None}

    def trains_like(self, other: MethodRow) -> bool:
        """Whether only the amount of training differs."""
        names = ("method", "ptr", "filter", "weighting", "apply")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    @property
    def is_positive_control(self) -> bool:
        """Whether it weighs episodes by the true labels, within bounds that a method could have."""
        return self.weighting is not None and self.weighting.by == TRUTH and self.weighting.w_min > 0

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.title or self.name

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules whose scores it needs."""
        judges = [part.by for part in (self.filter, self.weighting) if part is not None]
        return tuple(dict.fromkeys(judge for judge in judges if judge != TRUTH))

    @property
    def screens(self) -> bool:
        """Whether the method has settings of screening."""
        return "screening" in training_method(self.method).own_settings

    @property
    def weighs_itself(self) -> bool:
        """Whether the run finds scores and weights of its own, in training or before it."""
        return training_method(self.method).scores_episodes(self.ptr_config(steps=1, log_freq=1))

    def ptr_config(self, *, steps: int, log_freq: int) -> PTRConfig:
        """The method's settings for a run of that length, with the row's changes."""
        try:
            return changed(training_method(self.method).ptr_config(steps=steps, log_freq=log_freq), self.ptr, "ptr")
        except ConfigError as error:
            raise ConfigError(f"{self.name}: {error}") from error


Config = typing.TypeVar("Config")


def changed(config: Config, changes: dict[str, Any], place: str) -> Config:
    """A copy of nested frozen dataclasses with some values replaced; a misspelt one is named with its place."""
    known = {entry.name for entry in dataclasses.fields(config)}  # type: ignore[arg-type]
    replaced: dict[str, Any] = {}
    for name, value in changes.items():
        if name not in known:
            raise ConfigError(f"{place} has no setting {name!r}; {did_you_mean(name, known)}")
        current = getattr(config, name)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, dict):
                raise ConfigError(f"{place}.{name} is a group of settings; write {name}: {{setting: value}}")
            value = changed(current, value, f"{place}.{name}")
        _check_kind(f"{place}.{name}", current, value)
        replaced[name] = tuple(value) if isinstance(current, tuple) and isinstance(value, list) else value
    return dataclasses.replace(config, **replaced)  # type: ignore[type-var]


def _check_kind(place: str, current: Any, value: Any) -> None:
    """A number for a number, a word for a word; a whole number may stand for any other."""
    for kind, word in ((bool, "true or false"), (int | float, "a number"), (str, "a word")):
        if isinstance(current, kind):
            if not isinstance(value, kind) or (isinstance(value, bool) and not isinstance(current, bool)):
                raise ConfigError(f"{place} is {value!r}; it must be {word}")
            return


def _check_rule(name: str, judge: str) -> None:
    judges = [TRUTH, *scorer_names()]
    if judge not in judges:
        raise ConfigError(f"{name}: there is no rule {judge!r}; {did_you_mean(judge, judges)}")
