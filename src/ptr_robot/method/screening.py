"""Screening: judge every episode before training, by identification posteriors that were fitted across folds.

The same question as in training, asked of the whole dataset at once: can what was recorded (consequence, action,
instruction) be told from mismatched recordings by heads that never saw the episode? Scores are means over all of an
episode's chunks, exact where those of a running batch are samples, and the weights they lead to hold from the first
step on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ptr_robot.method.episodes import population_weights
from ptr_robot.method.instructions import STRONG_EVIDENCE, Report, identify
from ptr_robot.method.mixture import TwoPopulations, fit_two_populations, task_moments, tell_apart
from ptr_robot.method.screening_config import ScreeningConfig
from ptr_robot.method.transitions import Episodes, Transitions

__all__ = ["CHANNELS", "Report", "Screening", "ScreeningConfig", "Transitions", "keep_enough", "screen"]

CHANNELS = ("outcome", "action", "instruction")
_LEAST_WEIGHT = 0.25  # of what is kept: the paper's lower bound


@dataclass(frozen=True)
class Screening:
    """What was found of each of ``E`` episodes."""

    episode_ids: Tensor  # (E,) int64, ascending
    num_chunks: Tensor  # (E,) int64
    scores: Tensor  # (E, channels) mean log posterior over uniform, in nats; that of the instruction as it was given
    standings: Tensor  # (E,) the lower of how far instruction and the rest are from good ones, in their deviations
    weights: Tensor  # (E,) zero for what is left out, .25 to 1 for what is kept
    instructions: Tensor  # (E,) int64 the task that was given, or the one that strong evidence gives instead
    is_corrected: Tensor  # (E,) bool whether it is another one


def screen(transitions: Transitions, config: ScreeningConfig, report: Report | None = None) -> Screening:
    """Fit the heads, score every chunk by the head that never saw its episode, correct instructions, weigh episodes."""
    transitions = transitions.without_constants()
    episodes = Episodes.of(transitions)
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        torch.default_generator.manual_seed(config.seed)
        means, instructions = identify(transitions, episodes, config, report)
    given_scores, given_tasks = means[:, CHANNELS.index("instruction")], episodes.first(transitions.task_ids)
    is_corrected = instructions != given_tasks
    tasks = torch.unique(instructions, return_inverse=True)[1]
    told = tell_apart(means[:, :2].sum(dim=1), tasks)  # by consequence and action together
    joint = told.values
    allowed = torch.where(told.is_told, population_weights(told.populations, joint, tasks), 1.0)
    given = torch.unique(given_tasks, return_inverse=True)[1]
    is_kept = keep_enough(allowed, joint, tasks, config.keep_share) | keep_enough(
        allowed, joint, given, config.keep_share
    )
    weights = torch.where(is_kept, allowed.clamp(min=_LEAST_WEIGHT), 0.0)
    standings = torch.where(
        told.is_told, _standings(told.populations, joint, tasks), _standings_alone(joint.double(), tasks).to(joint)
    )
    together = torch.zeros_like(tasks)  # the scores of instructions are compared over all tasks
    by_instruction = fit_two_populations(given_scores, together)
    if by_instruction is not None:
        standings = torch.minimum(standings, _standings(by_instruction, given_scores, together))
    return Screening(episodes.ids, episodes.num_chunks, means, standings, weights, instructions, is_corrected)


def keep_enough(allowed: Tensor, scores: Tensor, tasks: Tensor, share: float) -> Tensor:  # (E,) each -> (E,) bool
    """All but what strong evidence is against, and of every task the best ``share`` in any case."""
    is_kept = allowed > STRONG_EVIDENCE
    for task in range(int(tasks.max()) + 1):
        rows = (tasks == task).nonzero().squeeze(1)
        needed = math.ceil(share * len(rows))
        if is_kept[rows].sum() < needed:
            by_score = rows[scores[rows].argsort(descending=True, stable=True)]
            by_weight = by_score[allowed[by_score].argsort(descending=True, stable=True)]
            is_kept[by_weight[:needed]] = True
    return is_kept


def _standings(populations: TwoPopulations | None, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,)
    """Distance to the task's good episodes in their deviations, below zero for worse."""
    if populations is None:
        return torch.zeros_like(values)
    return ((values - populations.levels[tasks]) / populations.good_scale).to(values)


def _standings_alone(values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,)
    """Where good ones are not told from others: distance to the mean of the task, in deviations of its episodes."""
    levels, scales, _ = task_moments(values, tasks)
    return (values - levels[tasks]) / scales[tasks]
