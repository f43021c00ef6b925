"""Screening: score every episode before training, by cross-fitted identification posteriors.

Held-out scorers identify what was recorded (consequence, action, instruction) among mismatched recordings, over the
whole dataset at once. Unlike the paper's scorer they do not see the recorded action when they identify the consequence.
Scores are means over all of an episode's chunks, and the weights hold from the first training step on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ptr_robot.method.episode_evidence import population_weights
from ptr_robot.method.mixture import TwoPopulations, fit_two_populations, separate_tasks, task_moments
from ptr_robot.method.scoring.config import ScreeningConfig
from ptr_robot.method.scoring.instruction_labels import STRONG_EVIDENCE, Report, score_episodes
from ptr_robot.method.scoring.transitions import Episodes, Transitions

__all__ = [
    "MIN_KEPT_WEIGHT",
    "SCREENING_CHANNELS",
    "Report",
    "Screening",
    "ScreeningConfig",
    "Transitions",
    "keep_enough",
    "screen",
]

SCREENING_CHANNELS = ("outcome", "action", "instruction")
MIN_KEPT_WEIGHT = 0.25  # of what is kept: the paper's lower bound


@dataclass(frozen=True)
class Screening:
    """What was found of each of ``E`` episodes."""

    episode_ids: Tensor  # (E,) int64, ascending
    num_chunks: Tensor  # (E,) int64
    scores: Tensor  # (E, channels) mean log posterior over uniform, in nats; that of the instruction as it was given
    z_scores: (
        Tensor  # (E,) robust z-score against the task's good episodes: the lower of the instruction's and the rest's
    )
    weights: Tensor  # (E,) zero for what is excluded, .25 to 1 for what is kept
    instructions: Tensor  # (E,) int64 the task that was given, or the one that strong evidence gives instead
    is_corrected: Tensor  # (E,) bool whether it is another one


def screen(transitions: Transitions, config: ScreeningConfig, report: Report | None = None) -> Screening:
    """Fit cross-fitted heads, score every chunk by its held-out one, correct instructions and weight episodes."""
    transitions = transitions.without_constants()
    episodes = Episodes.of(transitions)
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        torch.default_generator.manual_seed(config.seed)
        means, instructions = score_episodes(transitions, episodes, config, report)
    given_scores, given_tasks = means[:, SCREENING_CHANNELS.index("instruction")], episodes.first(transitions.task_ids)
    is_corrected = instructions != given_tasks
    tasks = torch.unique(instructions, return_inverse=True)[1]
    joint = _joint_scores(means)
    allowed, z_scores = _weigh(joint, tasks)
    given = torch.unique(given_tasks, return_inverse=True)[1]
    is_kept = keep_enough(allowed, joint, tasks, config.keep_share) | keep_enough(
        allowed, joint, given, config.keep_share
    )
    weights = torch.where(is_kept, allowed.clamp(min=MIN_KEPT_WEIGHT), 0.0)
    one_group = torch.zeros_like(tasks)  # the scores of instructions are compared over all tasks
    by_instruction = fit_two_populations(given_scores, one_group)
    if by_instruction is not None:
        z_scores = torch.minimum(z_scores, _z_scores(by_instruction, given_scores, one_group))
    return Screening(episodes.ids, episodes.num_chunks, means, z_scores, weights, instructions, is_corrected)


def _joint_scores(means: Tensor) -> Tensor:  # (E, channels) -> (E,)
    """Consequence and action, or the action alone where consequences cannot be identified.

    A head that predicts no direction is confidently wrong: its scores lie below zero, the score of guessing, and their
    variance hides what the action's scores show.
    """
    consequences, actions = means[:, 0], means[:, 1]
    return consequences + actions if consequences.mean() > 0 else actions


def keep_enough(allowed: Tensor, scores: Tensor, tasks: Tensor, share: float) -> Tensor:  # (E,) each -> (E,) bool
    """All episodes without strong evidence against them, and of every task the best ``share`` in any case."""
    is_kept = allowed > STRONG_EVIDENCE
    for task in range(int(tasks.max()) + 1):
        rows = (tasks == task).nonzero().squeeze(1)
        needed = math.ceil(share * len(rows))
        if is_kept[rows].sum() < needed:
            by_score = rows[scores[rows].argsort(descending=True, stable=True)]
            by_weight = by_score[allowed[by_score].argsort(descending=True, stable=True)]
            is_kept[by_weight[:needed]] = True
    return is_kept


def _weigh(values: Tensor, tasks: Tensor) -> tuple[Tensor, Tensor]:  # (E,), (E,) -> (E,) weights, (E,) z_scores
    """Where a task's episodes are separated, by its two populations; elsewhere every episode has the weight one."""
    levels, scales, _ = task_moments(values.double(), tasks)
    allowed, z_scores = torch.ones_like(values), ((values - levels[tasks]) / scales[tasks]).to(values)
    for group in separate_tasks(values, tasks):
        allowed[group.rows] = population_weights(group.populations, group.values, group.tasks)
        z_scores[group.rows] = _z_scores(group.populations, group.values, group.tasks)
    return allowed, z_scores


def _z_scores(populations: TwoPopulations, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,)
    """Robust z-score: distance to the task's good episodes in their deviations, below zero for worse."""
    return ((values - populations.levels[tasks]) / populations.good_scale).to(values)
