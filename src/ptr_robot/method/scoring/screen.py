"""Screening: judge every episode before training, by identification posteriors that were fitted across folds.

The same question as in training, asked of the whole dataset at once: can what was recorded (consequence, action,
instruction) be told from mismatched recordings by heads that were not taught the episode? Scores are means over all of
an episode's chunks, exact where those of a running batch are samples, and the weights they lead to hold from the first
step on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ptr_robot.method.episode_evidence import population_weights
from ptr_robot.method.mixture import TwoPopulations, fit_two_populations, task_moments, tell_apart
from ptr_robot.method.scoring.config import ScreeningConfig
from ptr_robot.method.scoring.instruction_labels import STRONG_EVIDENCE, Report, identify
from ptr_robot.method.scoring.transitions import Episodes, Transitions

__all__ = ["CHANNELS", "LEAST_WEIGHT", "Report", "Screening", "ScreeningConfig", "Transitions", "keep_enough", "screen"]

CHANNELS = ("outcome", "action", "instruction")
LEAST_WEIGHT = 0.25  # of what is kept: the paper's lower bound


@dataclass(frozen=True)
class Screening:
    """What was found of each of ``E`` episodes."""

    episode_ids: Tensor  # (E,) int64, ascending
    num_chunks: Tensor  # (E,) int64
    scores: Tensor  # (E, channels) mean log posterior over uniform, in nats; that of the instruction as it was given
    standings: Tensor  # (E,) how far from good ones, in their deviations: the lower of the instruction's and the rest's
    weights: Tensor  # (E,) zero for what is left out, .25 to 1 for what is kept
    instructions: Tensor  # (E,) int64 the task that was given, or the one that strong evidence gives instead
    is_corrected: Tensor  # (E,) bool whether it is another one


def screen(transitions: Transitions, config: ScreeningConfig, report: Report | None = None) -> Screening:
    """Fit heads, score every chunk by the one that was not taught its episode, correct instructions, weigh episodes."""
    transitions = transitions.without_constants()
    episodes = Episodes.of(transitions)
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        torch.default_generator.manual_seed(config.seed)
        means, instructions = identify(transitions, episodes, config, report)
    given_scores, given_tasks = means[:, CHANNELS.index("instruction")], episodes.first(transitions.task_ids)
    is_corrected = instructions != given_tasks
    tasks = torch.unique(instructions, return_inverse=True)[1]
    joint = _together(means)
    allowed, standings = _judge(joint, tasks)
    given = torch.unique(given_tasks, return_inverse=True)[1]
    is_kept = keep_enough(allowed, joint, tasks, config.keep_share) | keep_enough(
        allowed, joint, given, config.keep_share
    )
    weights = torch.where(is_kept, allowed.clamp(min=LEAST_WEIGHT), 0.0)
    together = torch.zeros_like(tasks)  # the scores of instructions are compared over all tasks
    by_instruction = fit_two_populations(given_scores, together)
    if by_instruction is not None:
        standings = torch.minimum(standings, _standings(by_instruction, given_scores, together))
    return Screening(episodes.ids, episodes.num_chunks, means, standings, weights, instructions, is_corrected)


def _together(means: Tensor) -> Tensor:  # (E, channels) -> (E,)
    """Consequence and action, or the action alone where consequences cannot be told.

    A head that has learnt nothing of directions is wrong with confidence: its scores lie below zero, which is what
    guessing has, and scatter enough to hide what the action says.
    """
    consequences, actions = means[:, 0], means[:, 1]
    return consequences + actions if consequences.mean() > 0 else actions


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


def _judge(values: Tensor, tasks: Tensor) -> tuple[Tensor, Tensor]:  # (E,), (E,) -> (E,) weights, (E,) standings
    """Where a task's episodes are told apart, by the populations that do; elsewhere every one has the weight one."""
    levels, scales, _ = task_moments(values.double(), tasks)
    allowed, standings = torch.ones_like(values), ((values - levels[tasks]) / scales[tasks]).to(values)
    for group in tell_apart(values, tasks):
        allowed[group.rows] = population_weights(group.populations, group.values, group.tasks)
        standings[group.rows] = _standings(group.populations, group.values, group.tasks)
    return allowed, standings


def _standings(populations: TwoPopulations, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,)
    """Distance to the task's good episodes in their deviations, below zero for worse."""
    return ((values - populations.levels[tasks]) / populations.good_scale).to(values)
