"""LIBERO's suites and tasks by name, read from hf-libero without importing it."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ptr_robot.envs.libero.installation import package_root
from ptr_robot.errors import ConfigError, MissingExtraError, did_you_mean

# The official limits, in steps after settling. LeRobot allows 280 steps in Spatial: --env.max_steps=280.
MAX_STEPS = {"libero_spatial": 220, "libero_object": 280, "libero_goal": 300, "libero_10": 520}
SUITES = tuple(MAX_STEPS)
NUM_INITIAL_STATES = 50  # of every task
_SCENE_MARK = "SCENE"


@dataclass(frozen=True)
class LiberoTask:
    """One task of a suite."""

    suite: str
    index: int
    file_stem: str  # of its files in hf-libero

    @property
    def name(self) -> str:
        """The short name that flags and results use."""
        return f"{self.suite}_{self.index}"

    @property
    def instruction(self) -> str:
        """What the robot is told; hf-libero, too, takes it from the file's name."""
        words = self.file_stem.split("_")
        scenes = [place for place, word in enumerate(words) if word.startswith(_SCENE_MARK)]
        return " ".join(words[scenes[0] + 1 :] if scenes else words)

    @property
    def max_steps(self) -> int:
        """The official limit."""
        return MAX_STEPS[self.suite]

    @property
    def problem_file(self) -> Path:
        """The BDDL file: objects, regions, goal."""
        return package_root() / "bddl_files" / self.suite / f"{self.file_stem}.bddl"

    @property
    def initial_states_file(self) -> Path:
        """The fifty official initial states."""
        return package_root() / "init_files" / self.suite / f"{self.file_stem}.pruned_init"


@functools.cache
def suite_tasks(suite: str) -> tuple[LiberoTask, ...]:
    """The ten tasks of a suite in their official order."""
    if suite not in MAX_STEPS:
        raise ConfigError(f"there is no LIBERO suite {suite!r}; {did_you_mean(suite, SUITES)}")
    stems = _task_map()[suite]
    return tuple(LiberoTask(suite, index, stem) for index, stem in enumerate(stems))


def resolve_task(name: str) -> LiberoTask:
    """A task by suite and number (``libero_object_3``, or with a slash), or by the name of its file."""
    suite, _, number = name.replace("/", "_").rpartition("_")
    if suite in MAX_STEPS and number.isdecimal():
        tasks = suite_tasks(suite)
        if int(number) >= len(tasks):
            raise ConfigError(f"{suite} has tasks 0 to {len(tasks) - 1}, got {name!r}")
        return tasks[int(number)]
    known = {task.file_stem: task for suite in SUITES for task in suite_tasks(suite)}
    stem = name.rpartition("/")[2]
    if stem not in known:
        raise ConfigError(f"there is no LIBERO task {name!r}; {_hint(stem, known)}")
    return known[stem]


def resolve_names(name: str) -> tuple[LiberoTask, ...]:
    """The tasks that a name stands for: that of a suite for all of its tasks."""
    return suite_tasks(name) if name in MAX_STEPS else (resolve_task(name),)


def _hint(name: str, known: Iterable[str]) -> str:
    hint = did_you_mean(name, [*known, *SUITES])
    if hint.startswith("did you mean"):
        return hint
    return f"name a suite ({', '.join(SUITES)}) or one of its ten tasks (libero_object_3)"


@functools.cache
def _task_map() -> dict[str, list[str]]:
    """Task file names by suite: a plain table in hf-libero, which is read alone, since importing all takes seconds."""
    path = package_root() / "benchmark" / "libero_suite_task_map.py"
    spec = importlib.util.spec_from_file_location("_ptr_robot_libero_task_map", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise MissingExtraError(f"{path}: this hf-libero has no table of tasks; install hf-libero==0.1.4: make libero")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tasks: dict[str, list[str]] = module.libero_task_map
    return tasks
