"""Screening: judge every episode before training, by identification posteriors that were fitted across folds.

The same question as in training, asked of the whole dataset at once: can what was recorded (consequence, action,
instruction) be told from mismatched recordings by heads that never saw the episode? Scores are means over all of an
episode's chunks, exact where those of a running batch are samples, and the weights they lead to hold from the first
step on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ptr_robot.errors import ConfigError, NonFiniteError, ShapeError
from ptr_robot.method.channels import INSTRUCTION_DIM, instruction_codes
from ptr_robot.method.episodes import population_weights
from ptr_robot.method.folds import assign_folds
from ptr_robot.method.identification import (
    Question,
    WhichAction,
    WhichConsequence,
    WhichInstruction,
    cross_fit,
    standardised,
)
from ptr_robot.method.mixture import TwoPopulations, fit_two_populations, with_equal_spreads

CHANNELS = ("outcome", "action", "instruction")
_INSTRUCTION_TEMPERATURE = 0.5  # high: a head that cannot be very sure of itself is not led astray by wrong labels
_STRONG_EVIDENCE = 0.05  # what is allowed no more weight than this is left out
_LEAST_WEIGHT = 0.25  # of what is kept: the paper's lower bound
_FEWEST_EPISODES = 4  # of an instruction: heads that hardly saw it cannot say that it is wrong


@dataclass(frozen=True)
class ScreeningConfig:
    """How much the heads learn, and how much stays at least."""

    # Of the heads' optimiser, at most: they stop where episodes that they never saw are told best.
    steps: int = 500
    # Chunks in a step, each a candidate for all others.
    batch_size: int = 256
    # Mismatched recordings that each chunk is told from in the end.
    pool_size: int = 1024
    num_folds: int = 5
    hidden_dim: int = 256
    temperature: float = 0.1
    lr: float = 1e-3
    weight_decay: float = 1e-2
    # Of each task, the share of episodes that is kept at least: q/p never exceeds four times its inverse.
    keep_share: float = 0.25
    # Chunks of the dataset that are looked at, evenly over episodes.
    max_chunks: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "hidden_dim", "max_chunks"):
            if getattr(self, name) < 1:
                raise ConfigError(f"screening.{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("batch_size", "pool_size", "num_folds"):
            if getattr(self, name) < 2:
                raise ConfigError(f"screening.{name} is {getattr(self, name)}; it must be at least 2")
        if not 0 < self.keep_share <= 1:
            raise ConfigError(f"screening.keep_share is {self.keep_share}; it must be in (0, 1]")
        if not (self.temperature > 0 and self.lr > 0):
            raise ConfigError("screening.temperature and screening.lr must be above 0")


@dataclass(frozen=True)
class Transitions:
    """``N`` recorded chunks of a dataset."""

    observations: Tensor  # (N, Do) what was observed before; must not carry the instruction
    changes: Tensor  # (N, Dy) what the observation changed by
    actions: Tensor  # (N, Dt) the recorded chunk
    task_ids: Tensor  # (N,) int64
    episode_ids: Tensor  # (N,) int64

    def without_constants(self) -> Transitions:
        """Without the columns that never change, such as the slots that no robot of the data has."""
        observations, changes, actions = (
            part[:, part.std(dim=0) > 0] for part in (self.observations, self.changes, self.actions)
        )
        return Transitions(observations, changes, actions, self.task_ids, self.episode_ids)

    def __post_init__(self) -> None:
        counts = {len(getattr(self, name)) for name in self.__dataclass_fields__}
        if len(counts) != 1:
            raise ShapeError(f"transitions have parts of different lengths: {sorted(counts)}")
        for name in ("observations", "changes", "actions"):
            if not getattr(self, name).isfinite().all():
                raise NonFiniteError(f"the transitions' {name} hold NaN or infinity; leave such chunks out")


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


@dataclass(frozen=True)
class Episodes:
    """Which chunks belong together."""

    ids: Tensor  # (E,) int64, ascending
    rows: Tensor  # (N,) int64: each chunk's place among the episodes
    num_chunks: Tensor  # (E,) int64

    @classmethod
    def of(cls, transitions: Transitions) -> Episodes:
        """All that have a chunk."""
        return cls(*torch.unique(transitions.episode_ids, return_inverse=True, return_counts=True))

    def means(self, values: Tensor) -> Tensor:  # (N, D) -> (E, D)
        """Over the chunks of each."""
        sums = torch.zeros(len(self.ids), values.shape[1]).index_add_(0, self.rows, values)
        return sums / self.num_chunks.unsqueeze(1)

    def first(self, values: Tensor) -> Tensor:  # (N,) -> (E,)
        """What all chunks of an episode share."""
        shared = torch.zeros(len(self.ids), dtype=values.dtype)
        shared[self.rows] = values
        return shared


Report = Callable[[str, float], None]  # what is being done, and which share of it is done


def screen(transitions: Transitions, config: ScreeningConfig, report: Report | None = None) -> Screening:
    """Fit the heads, score every chunk by the head that never saw its episode, correct instructions, weigh episodes."""
    transitions = transitions.without_constants()
    episodes = Episodes.of(transitions)
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        torch.default_generator.manual_seed(config.seed)
        given_scores, instructions = identify_instructions(transitions, episodes, config, report)
        is_corrected = instructions != episodes.first(transitions.task_ids)
        rows = episodes.rows
        task_ids = torch.where(is_corrected[rows], instructions[rows], transitions.task_ids)
        inputs = _before(replace(transitions, task_ids=task_ids))
        questions: dict[str, Question] = {
            "consequences": WhichConsequence(transitions.changes, config.temperature, config.pool_size),
            "actions": WhichAction(transitions.actions, config.pool_size),
        }
        scores = [
            question.scores(_answer(question, inputs, transitions, config, _about(report, name)))
            if question.target_dim
            else torch.zeros(len(rows))  # what never changes cannot be told apart
            for name, question in questions.items()
        ]
    means = episodes.means(torch.stack([*scores, given_scores[episodes.rows]], dim=1))  # (E, channels)
    tasks = torch.unique(instructions, return_inverse=True)[1]
    joint = with_equal_spreads(means[:, :2].sum(dim=1), tasks)  # consequence and action together
    populations = fit_two_populations(joint, tasks)
    allowed = population_weights(populations, joint, tasks)
    given = torch.unique(episodes.first(transitions.task_ids), return_inverse=True)[1]
    is_kept = keep_enough(allowed, joint, tasks, config.keep_share) | keep_enough(
        allowed, joint, given, config.keep_share
    )
    weights = torch.where(is_kept, allowed.clamp(min=_LEAST_WEIGHT), 0.0)
    standings = _standings(populations, joint, tasks)
    if len(torch.unique(transitions.task_ids)) > 1:
        together = torch.zeros_like(tasks)  # the scores of instructions are compared over all tasks
        by_instruction = _standings(fit_two_populations(given_scores, together), given_scores, together)
        standings = torch.minimum(standings, by_instruction)
    return Screening(episodes.ids, episodes.num_chunks, means, standings, weights, instructions, is_corrected)


def identify_instructions(
    transitions: Transitions, episodes: Episodes, config: ScreeningConfig, report: Report | None = None
) -> tuple[Tensor, Tensor]:  # (E,), (E,) int64
    """Each episode's mean score of the instruction it was given, and the instruction that it is taken to have.

    Heads learn twice, the second time only from episodes on which they agree with the instruction. An episode with
    several instructions keeps them, and so does one whose instruction is rare.
    """
    given = likely = episodes.first(transitions.task_ids)
    kinds, scores = torch.unique(transitions.task_ids), torch.zeros(len(given))
    for _ in range(2 if len(kinds) > 1 else 0):
        question = WhichInstruction(transitions.task_ids, (likely == given)[episodes.rows], _INSTRUCTION_TEMPERATURE)
        queries = _answer(question, _around(transitions), transitions, config, _about(report, "instructions"))
        likely = kinds[episodes.means(question.log_posteriors(queries)).argmax(dim=1)]
        scores = episodes.means(question.scores(queries).unsqueeze(1)).squeeze(1)
    together = torch.zeros_like(given)
    is_wrong = population_weights(fit_two_populations(scores, together), scores, together) <= _STRONG_EVIDENCE
    has_several = episodes.means((transitions.task_ids != given[episodes.rows]).float().unsqueeze(1)).squeeze(1) > 0
    _, row, counts = torch.unique(given, return_inverse=True, return_counts=True)
    is_rare = counts[row] < _FEWEST_EPISODES
    return scores, torch.where(is_wrong & ~has_several & ~is_rare, likely, given)


def keep_enough(allowed: Tensor, scores: Tensor, tasks: Tensor, share: float) -> Tensor:  # (E,) each -> (E,) bool
    """All but what strong evidence is against, and of every task the best ``share`` in any case."""
    is_kept = allowed > _STRONG_EVIDENCE
    for task in range(int(tasks.max()) + 1):
        rows = (tasks == task).nonzero().squeeze(1)
        needed = math.ceil(share * len(rows))
        if is_kept[rows].sum() < needed:
            by_score = rows[scores[rows].argsort(descending=True, stable=True)]
            by_weight = by_score[allowed[by_score].argsort(descending=True, stable=True)]
            is_kept[by_weight[:needed]] = True
    return is_kept


def _standings(populations: TwoPopulations | None, values: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,)
    """Distance to the task's good episodes in their deviations, below zero for worse; zero where it cannot be told."""
    if populations is None:
        return torch.zeros_like(values)
    return ((values - populations.levels[tasks]) / populations.good_scale).to(values)


def _about(report: Report | None, name: str) -> Callable[[float], None] | None:
    return functools.partial(report, f"screening: {name}") if report is not None else None


def _answer(
    question: Question,
    inputs: Tensor,
    transitions: Transitions,
    config: ScreeningConfig,
    report: Callable[[float], None] | None,
) -> Tensor:  # (N, D)
    return cross_fit(
        question,
        inputs,
        assign_folds(transitions.episode_ids, config.num_folds, config.seed),
        num_folds=config.num_folds,
        hidden_dim=config.hidden_dim,
        steps=config.steps,
        batch_size=config.batch_size,
        lr=config.lr,
        weight_decay=config.weight_decay,
        report=report,
    )


def _before(transitions: Transitions) -> Tensor:  # (N, inputs)
    """What is known before the chunk is acted: what consequence and action are identified from."""
    codes = INSTRUCTION_DIM**0.5 * instruction_codes(transitions.task_ids)
    return torch.cat([standardised(transitions.observations), codes], dim=1)


def _around(transitions: Transitions) -> Tensor:  # (N, inputs)
    """All but the instruction, which is identified from it."""
    changes = F.normalize(transitions.changes, dim=1)
    return torch.cat([standardised(transitions.observations), changes, transitions.actions], dim=1)
