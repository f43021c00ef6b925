"""RoboCasa's tasks by name, group and kitchens, from the registry that it publishes."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ptr_robot.envs.robocasa.installation import import_robocasa
from ptr_robot.errors import ConfigError, did_you_mean

ANY_KITCHEN = "all"
_PRETRAIN, _TARGET = "pretrain", "target"
SPLITS = (ANY_KITCHEN, _PRETRAIN, _TARGET)  # of kitchens and objects; RoboCasa's own names
_MARK = "@"


@dataclass(frozen=True)
class RoboCasaTask:
    """One task in one split of the kitchens."""

    kitchen_task: str  # RoboCasa's class
    split: str
    horizon: int  # steps

    @property
    def name(self) -> str:
        """As flags and results have it: ``CloseFridge`` in any kitchen, or ``CloseFridge@target``."""
        return self.kitchen_task if self.split == ANY_KITCHEN else f"{self.kitchen_task}{_MARK}{self.split}"


def resolve_names(name: str) -> tuple[RoboCasaTask, ...]:
    """A task, or the tasks of a group in the kitchens that the group is about (``atomic_seen``: the target ones)."""
    groups = task_groups()
    if name in groups:
        split, tasks = groups[name]
        return tuple(RoboCasaTask(task, split, horizons()[task]) for task in tasks)
    return (resolve_task(name),)


def resolve_task(name: str) -> RoboCasaTask:
    """One task by its full name."""
    task, _, split = name.partition(_MARK)
    known = horizons()
    if task not in known:
        hint = did_you_mean(task, [*known, *task_groups()])
        if not hint.startswith("did you mean"):  # all of them would fill the screen
            hint = f"name one of its groups ({', '.join(task_groups())}) or one of its {len(known)} tasks"
        raise ConfigError(f"there is no RoboCasa task {task!r}; {hint}")
    split = split or ANY_KITCHEN
    if split not in SPLITS:
        raise ConfigError(f"{name!r}: there is no split {split!r} of the kitchens; {did_you_mean(split, SPLITS)}")
    return RoboCasaTask(task, split, known[task])


def group_of(task: RoboCasaTask) -> str | None:
    """The group of target tasks that a task's results also count for."""
    if task.split != _TARGET:
        return None
    targets = {name: tasks for name, (split, tasks) in task_groups().items() if split == _TARGET}
    return next((name for name, tasks in targets.items() if task.kitchen_task in tasks), None)


@functools.cache
def task_groups() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Split and tasks of each group that LeRobot, too, takes as a name."""
    registry = import_robocasa("robocasa.utils.dataset_registry")
    groups = {name: (_TARGET, tuple(tasks)) for name, tasks in registry.TARGET_TASKS.items()}
    return groups | {name: (_PRETRAIN, tuple(tasks)) for name, tasks in registry.PRETRAINING_TASKS.items()}


@functools.cache
def horizons() -> dict[str, int]:
    """Every task and after how many steps RoboCasa's own evaluation calls it failed."""
    registry = import_robocasa("robocasa.utils.dataset_registry")
    tables = registry.ATOMIC_TASK_DATASETS, registry.COMPOSITE_TASK_DATASETS
    return {task: int(entry["horizon"]) for table in tables for task, entry in table.items()}
