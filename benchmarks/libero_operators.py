"""How often LIBERO's scripted operators do their tasks, from official initial states and within the official limits.

    python benchmarks/libero_operators.py rates.jsonl --tasks=libero_object,libero_spatial --states=0:50

Every episode is one line of the file, so what was stopped goes on where it was; the table at the end is made from the
whole file. ``--operator`` names one of the operators; by default the script itself runs, without manner and noise.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ptr_robot.envs.libero.environment import LiberoEnvironment
from ptr_robot.envs.libero.expert import ARM, LiberoExpert
from ptr_robot.envs.libero.suites import SUITES, LiberoTask, resolve_names, suite_tasks
from ptr_robot.envs.manner import Operator
from ptr_robot.envs.operators import OPERATORS
from ptr_robot.eval.success_statistics import wilson_interval

Episode = dict[str, object]
_SCRIPT = "script"


def run_episode(environment: LiberoEnvironment, task: LiberoTask, state: int, operator_name: str) -> Episode:
    """One episode; what the hand was at when the limit came is noted, for a failure's name."""
    environment.reset(seed=state, initial_state=state)
    expert = LiberoExpert(environment)
    operator = None
    if operator_name != _SCRIPT:
        operator = Operator(OPERATORS[operator_name], expert, seed=state)
        operator.expect(task.max_steps // 2)
    action = np.zeros(ARM.action_size, dtype=np.float32)
    while not environment.is_success and environment.num_steps < task.max_steps:
        wanted = expert.act(expert.hand) if operator is None else operator.intend(expert.hand, action)
        action = np.clip(wanted, -1.0, 1.0).astype(np.float32)
        environment.step(action)
    due = expert.due
    return {
        "task": task.name,
        "state": state,
        "operator": operator_name,
        "is_success": environment.is_success,
        "num_steps": environment.num_steps,
        "ended_at": "" if due is None else f"{due.goal.kind} {due.goal.subject}: {due.phase}",
    }


def run(path: Path, tasks: Sequence[LiberoTask], states: Sequence[int], operator: str) -> None:
    """Run every episode that the file does not have yet."""
    known = {(episode["task"], episode["state"], episode["operator"]) for episode in read(path)}
    for task in tasks:
        missing = [state for state in states if (task.name, state, operator) not in known]
        environment = LiberoEnvironment(task.name) if missing else None
        for state in missing:
            assert environment is not None
            episode = run_episode(environment, task, state, operator)
            with path.open("a") as file:
                file.write(json.dumps(episode) + "\n")


def read(path: Path) -> list[Episode]:
    """Every episode of the file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def table(episodes: Sequence[Episode]) -> list[str]:
    """Success by task and suite with Wilson's interval, mean steps of successes, and where failures ended."""
    lines = ["| task | instruction | success | 95% | steps | failures ended at |", "|---|---|---|---|---|---|"]
    for suite in SUITES:
        names = [task.name for task in suite_tasks(suite)]
        for task in suite_tasks(suite):
            lines += _row(task.name, task.instruction, [e for e in episodes if e["task"] == task.name])
        lines += _row(f"**{suite}**", "", [e for e in episodes if e["task"] in names], names_failures=False)
    return lines


def _row(name: str, instruction: str, episodes: Sequence[Episode], names_failures: bool = True) -> list[str]:
    if not episodes:
        return []
    steps = [int(str(episode["num_steps"])) for episode in episodes if episode["is_success"]]
    interval = wilson_interval(len(steps), len(episodes))
    ended = sorted({str(episode["ended_at"]) for episode in episodes if not episode["is_success"]})
    mean = f"{np.mean(steps):.0f}" if steps else "–"
    failures = "; ".join(ended) if names_failures else ""
    rate = f"{len(steps)}/{len(episodes)}"
    return [f"| {name} | {instruction} | {rate} | {interval.low:.2f}–{interval.high:.2f} | {mean} | {failures} |"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", type=Path, help="one line an episode")
    parser.add_argument("--tasks", default=",".join(SUITES), help="suites or tasks, separated by commas")
    parser.add_argument("--states", default="0:50", help="official initial states, first:end")
    parser.add_argument("--operator", default=_SCRIPT, choices=[_SCRIPT, *OPERATORS])
    flags = parser.parse_args(arguments)
    first, end = (int(part) for part in flags.states.split(":"))
    tasks = [task for name in flags.tasks.split(",") for task in resolve_names(name)]
    run(flags.path, tasks, range(first, end), flags.operator)
    print("\n".join(table(read(flags.path))))


if __name__ == "__main__":
    main()
