"""Evaluates a cell's policy: each task on the seed's layouts, with the maps of the source that showed the task."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from ptr_robot.envs.base import CameraConfig, EnvironmentType
from ptr_robot.eval.rollouts import RolloutConfig, rollout
from ptr_robot.eval.saved_policy import cameras_of, checkpoint_folder, load_rollout_policy
from ptr_robot.study.cells.data import CellSource
from ptr_robot.study.cells.record import EpisodeOutcome
from ptr_robot.study.spec.definition import EPISODES_PER_SEED
from ptr_robot.train.sources import read_sources
from ptr_robot.train.trained import pretrained_folder

FIRST_SEED = 1000  # of evaluation episodes of a study's seed s: from this + s * EPISODES_PER_SEED on
ENVIRONMENTS_AT_ONCE = 25  # the policy is called once for all of them


def evaluate_cell(run: Path, sources: Sequence[CellSource], seed: int) -> tuple[EpisodeOutcome, ...]:
    """Roll the policy out in this process alone: the other cores have cells of their own."""
    records = read_sources(pretrained_folder(checkpoint_folder(run)))
    outcomes: list[EpisodeOutcome] = []
    for number, source in enumerate(sources):
        environment_type = source.dataset.environment_type
        if environment_type is not None:
            cameras = cameras_of(str(run), records[number], environment_type, source.dataset.camera_size)
            outcomes += _evaluate_source(run, number, source, environment_type, cameras, seed)
    return tuple(outcomes)


def _evaluate_source(
    run: Path, number: int, source: CellSource, environment_type: EnvironmentType, cameras: CameraConfig, seed: int
) -> list[EpisodeOutcome]:
    """In the environment of its data, by that environment's protocol."""
    settings = source.evaluation
    first = FIRST_SEED + seed * EPISODES_PER_SEED
    sampling_seed = seed if settings.sampling_seed is None else settings.sampling_seed
    result = rollout(
        functools.partial(
            load_rollout_policy,
            str(run),
            sampling_seed,
            environment_type,
            number,
            n_action_steps=settings.n_action_steps,
        ),
        environment_type,
        source.tasks,
        range(first, first + settings.episodes),
        RolloutConfig(
            execute_steps=settings.n_action_steps,
            max_steps=settings.max_steps,
            batch_size=ENVIRONMENTS_AT_ONCE,
            num_processes=1,
            cameras=cameras,
        ),
    )
    return [EpisodeOutcome(e.task, e.seed, e.is_success, e.num_steps) for e in result.episodes]
