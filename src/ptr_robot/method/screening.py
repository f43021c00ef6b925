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
import torch.nn.functional as F
from torch import Tensor, nn

from ptr_robot.errors import ConfigError, ShapeError
from ptr_robot.method.channels import INSTRUCTION_DIM, ChannelHeads, instruction_codes
from ptr_robot.method.config import ScorerConfig
from ptr_robot.method.episodes import channel_weights
from ptr_robot.method.folds import assign_folds, training_shares
from ptr_robot.method.pool import Candidates
from ptr_robot.method.posterior import cosine_logits, identify

CHANNELS = ("outcome", "action", "instruction")
_ROWS_AT_ONCE = 2048
_STRONG_EVIDENCE = 0.05  # what is allowed no more weight than this is left out
_LEAST_WEIGHT = 0.25  # of what is kept: the paper's lower bound


@dataclass(frozen=True)
class ScreeningConfig:
    """How much the heads learn, and how much stays at least."""

    # Of the heads' optimiser.
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


@dataclass(frozen=True)
class Screening:
    """What was found of each of ``E`` episodes."""

    episode_ids: Tensor  # (E,) int64, ascending
    num_chunks: Tensor  # (E,) int64
    scores: Tensor  # (E, channels) mean log posterior over uniform, in nats
    weights: Tensor  # (E,) zero for what is left out, .25 to 1 for what is kept


def screen(transitions: Transitions, config: ScreeningConfig) -> Screening:
    """Fit the heads, score every chunk by the head that never saw its episode, and weigh the episodes."""
    transitions = transitions.without_constants()
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        torch.default_generator.manual_seed(config.seed)
        scores = torch.stack([_channel_scores(transitions, config, channel) for channel in CHANNELS], dim=1)
    episode_ids, rows, num_chunks = torch.unique(transitions.episode_ids, return_inverse=True, return_counts=True)
    means = torch.zeros(len(episode_ids), len(CHANNELS)).index_add_(0, rows, scores) / num_chunks.unsqueeze(1)
    tasks = torch.zeros(len(episode_ids), dtype=torch.int64)
    tasks[rows] = torch.unique(transitions.task_ids, return_inverse=True)[1]
    allowed = torch.ones(len(episode_ids))
    for channel in means.unbind(1):
        allowed = torch.minimum(allowed, channel_weights(channel, tasks))
    is_kept = keep_enough(allowed, means.sum(dim=1), tasks, config.keep_share)
    weights = torch.where(is_kept, allowed.clamp(min=_LEAST_WEIGHT), 0.0)
    return Screening(episode_ids, num_chunks, means, weights)


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


def _channel_scores(transitions: Transitions, config: ScreeningConfig, channel: str) -> Tensor:  # (N,)
    inputs, targets = _inputs(transitions, channel), _targets(transitions, channel)
    settings = ScorerConfig(num_folds=config.num_folds, hidden_dim=config.hidden_dim)
    heads = ChannelHeads(settings, input_dim=inputs.shape[1], target_dim=targets.shape[1])
    folds = assign_folds(transitions.episode_ids, config.num_folds, config.seed)
    # One instruction is one thing, however many chunks share it.
    kinds = transitions.task_ids if channel == "instruction" else torch.arange(len(folds))
    _fit(heads, inputs, targets, folds, kinds, config)
    return _score(heads, inputs, targets, folds, kinds, config)


def _fit(
    heads: ChannelHeads, inputs: Tensor, targets: Tensor, folds: Tensor, kinds: Tensor, config: ScreeningConfig
) -> None:
    """Each chunk trains every head but that of its episode's fold, among the other chunks of its batch."""
    optimizer = torch.optim.AdamW(heads.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.steps)
    columns = torch.arange(min(config.batch_size, len(inputs)))
    for _ in range(config.steps):
        rows = torch.randint(len(inputs), (len(columns),))
        candidates = Candidates(targets[rows], columns, kinds[rows].unsqueeze(1) != kinds[rows])
        logits = cosine_logits(heads(inputs[rows]), candidates.targets, config.temperature, clamp=20.0)
        shares = training_shares(folds[rows], config.num_folds)
        loss = -(shares * identify(logits, candidates).log_posteriors).sum(dim=0).mean()
        optimizer.zero_grad()
        torch.autograd.backward([loss])
        optimizer.step()
        schedule.step()


@torch.no_grad()
def _score(
    heads: nn.Module, inputs: Tensor, targets: Tensor, folds: Tensor, kinds: Tensor, config: ScreeningConfig
) -> Tensor:  # (N,)
    """log p̂ + log |Y| against one pool for all."""
    pool = torch.randperm(len(inputs))[: config.pool_size]
    scores = []
    for rows in torch.split(torch.arange(len(inputs)), _ROWS_AT_ONCE):
        queries = heads(inputs[rows])[folds[rows], torch.arange(len(rows))]  # (n, D) each by its own head
        matched = (queries * targets[rows]).sum(dim=1, keepdim=True) / config.temperature
        logits = queries @ targets[pool].T / config.temperature
        is_negative = kinds[rows].unsqueeze(1) != kinds[pool]
        among = torch.cat([matched, logits.masked_fill(~is_negative, -torch.inf)], dim=1)
        counts = is_negative.sum(dim=1) + 1
        scores.append(matched.squeeze(1) - among.logsumexp(dim=1) + counts.log())
    return torch.cat(scores)


def _inputs(transitions: Transitions, channel: str) -> Tensor:  # (N, inputs)
    """No channel sees what it identifies."""
    observations = _standardised(transitions.observations)
    if channel == "instruction":
        return torch.cat([observations, F.normalize(transitions.changes, dim=1), transitions.actions], dim=1)
    return torch.cat([observations, INSTRUCTION_DIM**0.5 * instruction_codes(transitions.task_ids)], dim=1)


def _targets(transitions: Transitions, channel: str) -> Tensor:  # (N, D) of unit length
    if channel == "instruction":
        return instruction_codes(transitions.task_ids)
    return F.normalize(transitions.changes if channel == "outcome" else transitions.actions, dim=1)


def _standardised(values: Tensor) -> Tensor:
    return (values - values.mean(dim=0)) / (values.std(dim=0) + 1e-3)
