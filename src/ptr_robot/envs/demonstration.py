"""One recorded episode by one operator, whose ground truth says what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ptr_robot.data.ground_truth import Fault
from ptr_robot.envs.matching import FittedEpisode, expert_length, fit_pace
from ptr_robot.envs.operators import OperatorConfig
from ptr_robot.envs.performance import Demonstration, DemonstrationSeeds, Pace, perform, rehearse
from ptr_robot.envs.scripted import Workplace

NOT_COMPLETED = "not_completed"
_NUM_CLEAN_TRIES = 5


def demonstrate(
    workplace: Workplace,
    config: OperatorConfig,
    seeds: DemonstrationSeeds,
    cameras: Sequence[str] = (),
    match_lengths: bool = False,
) -> Demonstration:
    """Let an operator do the task once; a clean operator who fails does it again, in a newly drawn manner.

    Who has failed every time leaves an episode that is no example of the task, and its ground truth says so. With
    ``match_lengths`` clean and faulty episodes have lengths of the same distribution (``fit_pace``).
    """
    expert_frames = expert_length(workplace, seeds) if match_lengths else None
    for operator_seed in np.random.SeedSequence(seeds.operator).generate_state(_NUM_CLEAN_TRIES).tolist():
        drawn = replace(seeds, operator=operator_seed)
        episode = _fit(workplace, config, drawn, expert_frames)
        if config.is_faulty or episode.demonstration.is_success:
            break
    demonstration = episode.demonstration
    if cameras:
        demonstration = perform(workplace, config, drawn, episode.pace, episode.expected, cameras)
    if config.is_faulty or demonstration.is_success:
        return demonstration
    failure = Fault(NOT_COMPLETED, 0, demonstration.num_frames - 1, {"tries": _NUM_CLEAN_TRIES})
    return replace(demonstration, faults=(failure,))


def _fit(
    workplace: Workplace, config: OperatorConfig, seeds: DemonstrationSeeds, expert_frames: int | None
) -> FittedEpisode:
    if expert_frames is not None:
        return fit_pace(workplace, config, seeds, expert_frames)
    expected = rehearse(workplace, config, seeds, Pace())
    return FittedEpisode(Pace(), expected, perform(workplace, config, seeds, Pace(), expected))
