"""Identification across folds: heads that tell a recording from mismatched ones, asked where they never learnt.

Three questions of one form, log p̂ + log |Y| against a pool of candidates: which consequence follows, which action was
recorded, which instruction was given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ptr_robot.method.folds import training_shares
from ptr_robot.method.heads import ChannelHeads, instruction_codes
from ptr_robot.method.ptr.config import ScorerConfig

_ROWS_AT_ONCE = 2048
_NUM_LOOKS = 8  # at how the held-out scores come along, each after twice as many steps as the one before
_PATIENCE = 2  # looks without a better one before learning ends
_LOGIT_BOUND = 20.0
_SPIKE = 10.0  # deviations
_MOST_PASSES = 30  # each draws a spike in by the root of the number of chunks, over ten


class Question(ABC):
    """What is to be identified of ``N`` chunks; heads answer with one query a chunk."""

    is_direction: bool  # whether queries have unit length
    target_dim: int

    @abstractmethod
    def losses(self, queries: Tensor, rows: Tensor) -> Tensor:  # (F, n, D), (n,) -> (F, n)
        """What the heads learn from, on the chunks ``rows``."""

    @abstractmethod
    def scores(self, queries: Tensor) -> Tensor:  # (N, D) -> (N,)
        """log p̂ + log |Y| of all chunks, given each one's held-out query."""

    def mean_score(self, queries: Tensor) -> float:  # (N, D)
        """How well held-out queries do over all."""
        return float(self.scores(queries).mean())


class Recording(Question):
    """What was recorded of a chunk, identified from what is known before it, the instruction included."""

    @abstractmethod
    def log_likelihoods(self, queries: Tensor, usual: Tensor) -> Tensor:  # (N, D), (N, D) -> (N,)
        """Of what was recorded, up to a constant; ``usual`` are queries that errors are measured by."""


class WhichConsequence(Recording):
    """By direction, as the paper does: softmax of cosines over a temperature, among the chunks of a batch."""

    is_direction = True

    def __init__(self, changes: Tensor, temperature: float, pool_size: int) -> None:
        self.targets = F.normalize(changes, dim=1)
        self.temperature = temperature
        self.pool = torch.randperm(len(changes))[:pool_size]
        self.target_dim = changes.shape[1]

    def losses(self, queries: Tensor, rows: Tensor) -> Tensor:
        logits = (queries @ self.targets[rows].T / self.temperature).clamp(-_LOGIT_BOUND, _LOGIT_BOUND)
        is_other_draw = rows.unsqueeze(1) != rows  # a chunk that was drawn twice is no candidate against itself
        is_other_draw.fill_diagonal_(fill_value=True)
        logits = logits.masked_fill(~is_other_draw, -torch.inf)
        return -logits.log_softmax(dim=2).diagonal(dim1=1, dim2=2)

    def log_likelihoods(self, queries: Tensor, usual: Tensor) -> Tensor:  # noqa: ARG002
        return (queries * self.targets).sum(dim=1) / self.temperature

    def scores(self, queries: Tensor) -> Tensor:
        matched = self.log_likelihoods(queries, queries)
        return _against_pool(matched, queries @ self.targets[self.pool].T / self.temperature, self.pool)


class WhichAction(Recording):
    """By likelihood: a normal distribution around the predicted chunk, as wide as the held-out errors are.

    Noise on a recorded chunk lengthens it in all directions, which a cosine forgives and a distance does not. Errors of
    neighbouring steps go together, so the D dimensions count as √D independent ones.
    """

    is_direction = False

    def __init__(self, actions: Tensor, pool_size: int) -> None:
        self.targets = standardised(actions)
        self.pool = torch.randperm(len(actions))[:pool_size]
        self.target_dim = actions.shape[1]

    def losses(self, queries: Tensor, rows: Tensor) -> Tensor:
        return (queries - self.targets[rows]).square().mean(dim=2)

    def log_likelihoods(self, queries: Tensor, usual: Tensor) -> Tensor:
        return -((queries - self.targets) / self._widths(usual)).square().sum(dim=1) / self._per_nat

    def scores(self, queries: Tensor) -> Tensor:
        widths = self._widths(queries)
        own, predicted = self.targets / widths, queries / widths
        matched = -(own - predicted).square().sum(dim=1) / self._per_nat
        return _against_pool(matched, -torch.cdist(predicted, own[self.pool]).square() / self._per_nat, self.pool)

    @property
    def _per_nat(self) -> float:
        return float(2 * self.target_dim**0.5)

    def _widths(self, queries: Tensor) -> Tensor:  # (N, D) -> (D,)
        return (queries - self.targets).square().mean(dim=0).sqrt().clamp_min(1e-2)


class WhichInstruction(Question):
    """By direction among the ``candidates``; chunks with another instruction are not learnt from."""

    is_direction = True

    def __init__(self, task_ids: Tensor, candidates: Tensor, temperature: float) -> None:  # (N,), (K,) ascending
        self.candidates = candidates
        self.usable = torch.isin(task_ids, candidates)
        self.given = torch.searchsorted(candidates, task_ids).clamp(max=len(candidates) - 1)
        self.codes = instruction_codes(candidates) / temperature  # (K, I)
        self.target_dim = self.codes.shape[1]

    def losses(self, queries: Tensor, rows: Tensor) -> Tensor:
        log_posteriors = (queries @ self.codes.T).log_softmax(dim=2)  # (F, n, K)
        own = log_posteriors.gather(2, self.given[rows].expand(len(queries), -1).unsqueeze(2)).squeeze(2)
        return -own * self.usable[rows]

    def log_posteriors(self, queries: Tensor) -> Tensor:  # (N, I) -> (N, K)
        """Of every candidate, over uniform."""
        return (queries @ self.codes.T).log_softmax(dim=1) + torch.tensor(float(len(self.candidates))).log()

    def scores(self, queries: Tensor) -> Tensor:
        return self.log_posteriors(queries).gather(1, self.given.unsqueeze(1)).squeeze(1)

    def mean_score(self, queries: Tensor) -> float:
        return float(self.scores(queries)[self.usable].mean())


@dataclass(frozen=True)
class CrossFitted:
    """Heads that learnt, each from all episodes but those of its fold."""

    heads: ChannelHeads
    folds: Tensor  # (N,) int64

    @torch.no_grad()
    def queries(self, inputs: Tensor) -> Tensor:  # (N, inputs) -> (N, D)
        """Each chunk's query by the head that was not taught its episode.

        As a wrong answer for others it may have met the episode, and the step at which all heads stop is common.
        """
        answers = inputs.new_empty(len(inputs), self.heads.target_dim)
        for fold in range(self.heads.num_folds):
            for rows in torch.split((self.folds == fold).nonzero().squeeze(1), _ROWS_AT_ONCE):
                answers[rows] = self.heads(inputs[rows], fold)
        return answers


def cross_fit(
    question: Question,
    inputs: Tensor,  # (N, inputs)
    folds: Tensor,  # (N,) int64
    *,
    num_folds: int,
    hidden_dim: int,
    steps: int,
    batch_size: int,
    lr: float,
    weight_decay: float,
    report: Callable[[float], None] | None = None,  # told which share of the steps is done
) -> CrossFitted:
    """Heads as they were when the queries of those that never saw a chunk's episode did best.

    Heads that go on learning come to know faulty recordings by heart, and what they say of other episodes gets worse:
    the held-out mean tells when, without labels.
    """
    settings = ScorerConfig(num_folds=num_folds, hidden_dim=hidden_dim)
    heads = ChannelHeads(
        settings, input_dim=inputs.shape[1], target_dim=question.target_dim, is_direction=question.is_direction
    )
    optimizer = torch.optim.AdamW(heads.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    fitted = CrossFitted(heads, folds)
    looks = {max(1, steps >> halvings) for halvings in range(_NUM_LOOKS)}
    best: dict[str, Tensor] = {}
    best_mean, num_worse = -torch.inf, 0
    for step in range(1, steps + 1):
        rows = torch.randint(len(inputs), (min(batch_size, len(inputs)),))
        losses = training_shares(folds[rows], num_folds) * question.losses(heads(inputs[rows]), rows)
        optimizer.zero_grad()
        torch.autograd.backward([losses.sum(dim=0).mean()])
        optimizer.step()
        schedule.step()
        if report is not None:
            report(step / steps)
        if step in looks:
            mean = question.mean_score(fitted.queries(inputs))
            if not best or mean > best_mean:
                best = {name: value.clone() for name, value in heads.state_dict().items()}
                best_mean, num_worse = mean, 0
            else:
                num_worse += 1
        if num_worse == _PATIENCE:
            break
    heads.load_state_dict(best)
    return fitted


def standardised(values: Tensor) -> Tensor:  # (N, D)
    """Zero mean and unit deviation a column; columns that hardly vary stay small.

    Values beyond ten deviations are drawn in: a single spike would make all others alike.
    """
    if not values.numel():
        return values
    for _ in range(_MOST_PASSES):
        mean, width = values.mean(dim=0), values.std(dim=0) + 1e-3
        if not ((values - mean).abs() > _SPIKE * width).any():
            break
        values = torch.minimum(torch.maximum(values, mean - _SPIKE * width), mean + _SPIKE * width)
    return (values - mean) / width


def _against_pool(matched: Tensor, logits: Tensor, pool: Tensor) -> Tensor:  # (N,), (N, M), (M,) -> (N,)
    """The matched one among itself and all candidates but itself."""
    logits[pool, torch.arange(len(pool))] = -torch.inf
    among = torch.cat([matched.unsqueeze(1), logits], dim=1)
    return matched - among.logsumexp(dim=1) + among.isfinite().sum(dim=1).log()
