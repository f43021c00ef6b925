"""What gives faulty episodes away for free: how well length alone, and jerk alone, tell them from clean ones.

    MUJOCO_GL=egl python benchmarks/lengths.py [TASK ...]

The built-in operators but the one who gives up, half of the episodes faulty, with matched lengths and without. An AUROC
of 0.5 is a coin's; below 0.5 the clean episodes have more of it. Each number has its bootstrap interval (95%).
"""

from __future__ import annotations

import sys
import time

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.collection import plan_episodes, resolve_mixture
from ptr_robot.envs.demonstration import demonstrate
from ptr_robot.envs.metaworld.environment import DEFAULT_CAMERAS
from ptr_robot.envs.operators import OPERATORS
from ptr_robot.envs.performance import Demonstration
from ptr_robot.envs.registry import environment_type
from ptr_robot.envs.scripted import Workplace

NUM_EPISODES = 24
METAWORLD = environment_type("metaworld")
Values = npt.NDArray[np.float64]


def jerk(demonstration: Demonstration) -> float:
    """The mean second difference of the movements."""
    return float(np.abs(np.diff(demonstration.actions[:, :3], n=2, axis=0)).mean())


def auroc(faulty: Values, clean: Values) -> float:
    """How often a faulty episode has the larger value; a tie counts half."""
    difference = faulty[:, None] - clean[None]  # (F, C)
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def with_interval(values: Values, is_faulty: npt.NDArray[np.bool_]) -> str:
    faulty, clean = values[is_faulty], values[~is_faulty]
    generator = np.random.default_rng(0)
    drawn = [auroc(generator.choice(faulty, len(faulty)), generator.choice(clean, len(clean))) for _ in range(2000)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{auroc(faulty, clean):.2f} ({low:.2f} to {high:.2f})"


def measure(task: str, match_lengths: bool) -> str:
    """One row of the table."""
    mixture = resolve_mixture({name: 1.0 for name in OPERATORS if name != "quitting"}, OPERATORS, 0.5)
    workplace = Workplace.of(METAWORLD, METAWORLD.make(task, DEFAULT_CAMERAS))
    started = time.process_time()
    shown = [
        demonstrate(workplace, OPERATORS[episode.operator], episode.seeds, match_lengths=match_lengths)
        for episode in plan_episodes([task], NUM_EPISODES, mixture, seed=0)
    ]
    seconds = time.process_time() - started
    is_faulty = np.array([bool(demonstration.faults) for demonstration in shown])
    lengths = np.array([float(demonstration.num_frames) for demonstration in shown])
    jerks = np.array([jerk(demonstration) for demonstration in shown])
    means = f"{lengths[~is_faulty].mean():5.0f} {lengths[is_faulty].mean():6.0f}"
    return (
        f"{task:<16} {match_lengths!s:<7} {with_interval(lengths, is_faulty)}  {with_interval(jerks, is_faulty)}  "
        f"{means} {seconds / len(shown):10.1f}"
    )


def main() -> None:
    tasks = METAWORLD.resolve_tasks(sys.argv[1:] or ["reach", "pick-place"])
    print(f"AUROC of {NUM_EPISODES} episodes a task, half of them faulty")
    print("task             matched length               jerk                 clean faulty  s/episode")
    for task in tasks:
        for match_lengths in (False, True):
            print(measure(task, match_lengths), flush=True)


if __name__ == "__main__":
    main()
