"""Cross-fitted identification: heads that identify a recording among mismatched ones, evaluated on held-out episodes.

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
from ptr_robot.method.ptr.posterior import cosine_logits, matched_log_posteriors, ptr_scores

_ROWS_AT_ONCE = 2048
_NUM_EVALUATIONS = 8  # of the held-out scores, each after twice as many steps as the one before
_PATIENCE = 2  # evaluations without a better one before training stops
_LOGIT_BOUND = 20.0
_OUTLIER_DEVIATIONS = 10.0  # values further from the mean are clipped
_MAX_PASSES = 30  # each clips an outlier to the root of the number of chunks, over ten


class Question(ABC):
    """What is to be identified of ``N`` chunks; heads answer with one query a chunk."""

    is_direction: bool  # whether queries have unit length
    target_dim: int

    @abstractmethod
    def losses(self, queries: Tensor, rows: Tensor) -> Tensor:  # (F, n, D), (n,) -> (F, n)
        """The training loss of each head on the chunks ``rows``."""

    @abstractmethod
    def scores(self, queries: Tensor) -> Tensor:  # (N, D) -> (N,)
        """log p̂ + log |Y| of all chunks, given each one's held-out query."""

    def mean_score(self, queries: Tensor) -> float:  # (N, D)
        """The mean score of held-out queries."""
        return float(self.scores(queries).mean())


class Recording(Question):
    """What was recorded of a chunk, identified from what is known before it, the instruction included."""

    @abstractmethod
    def log_likelihoods(self, queries: Tensor, reference_queries: Tensor) -> Tensor:  # (N, D), (N, D) -> (N,)
        """Of what was recorded, up to a constant; ``reference_queries`` are queries that errors are measured by."""


class WhichConsequence(Recording):
    """By direction, as the paper does: softmax of cosines over a temperature, among the chunks of a batch."""

    is_direction = True

    def __init__(self, changes: Tensor, temperature: float, pool_size: int) -> None:
        self.targets = F.normalize(changes, dim=1)
        self.temperature = temperature
        self.pool = torch.randperm(len(changes))[:pool_size]
        self.target_dim = changes.shape[1]

    def losses(self, queries: Tensor, rows: Tensor) -> Tensor:
        logits = cosine_logits(queries, self.targets[rows], self.temperature, _LOGIT_BOUND)
        is_candidate = rows.unsqueeze(1) != rows  # a chunk that was drawn twice is no candidate against itself
        is_candidate.fill_diagonal_(fill_value=True)
        logits = logits.masked_fill(~is_candidate, -torch.inf)
        matched = torch.arange(len(rows)).repeat(len(queries))
        return F.cross_entropy(logits.flatten(0, 1), matched, reduction="none").view(len(queries), -1)

    def log_likelihoods(self, queries: Tensor, reference_queries: Tensor) -> Tensor:  # noqa: ARG002
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

    def log_likelihoods(self, queries: Tensor, reference_queries: Tensor) -> Tensor:
        return -((queries - self.targets) / self._widths(reference_queries)).square().sum(dim=1) / self._per_nat

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
    """By direction among the ``candidates``; chunks with another instruction are not trained on."""

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
    """Trained heads, each on all episodes but those of its fold."""

    heads: ChannelHeads
    folds: Tensor  # (N,) int64

    @torch.no_grad()
    def queries(self, inputs: Tensor) -> Tensor:  # (N, inputs) -> (N, D)
        """Each chunk's query by the head that was not trained on its episode.

        Two things are shared: an episode's consequences may be negatives in the training of any head, and all heads
        stop at one step.
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
    report: Callable[[float], None] | None = None,  # called with the share of the steps that is done
) -> CrossFitted:
    """Heads at the step with the best held-out mean score.

    Heads that are trained longer overfit faulty recordings, and their scores of other episodes get worse: the held-out
    mean shows when, without labels.
    """
    settings = ScorerConfig(num_folds=num_folds, hidden_dim=hidden_dim)
    heads = ChannelHeads(
        settings, input_dim=inputs.shape[1], target_dim=question.target_dim, is_direction=question.is_direction
    )
    optimizer = torch.optim.AdamW(heads.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    fitted = CrossFitted(heads, folds)
    evaluation_steps = {max(1, steps >> halvings) for halvings in range(_NUM_EVALUATIONS)}
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
        if step in evaluation_steps:
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

    Values beyond ten deviations are clipped: a single outlier would make all others alike.
    """
    if not values.numel():
        return values
    for _ in range(_MAX_PASSES):
        mean, width = values.mean(dim=0), values.std(dim=0) + 1e-3
        if not ((values - mean).abs() > _OUTLIER_DEVIATIONS * width).any():
            break
        limit = _OUTLIER_DEVIATIONS * width
        values = torch.minimum(torch.maximum(values, mean - limit), mean + limit)
    return (values - mean) / width


def _against_pool(matched: Tensor, logits: Tensor, pool: Tensor) -> Tensor:  # (N,), (N, M), (M,) -> (N,)
    """The matched one among itself and all candidates but itself."""
    logits[pool, torch.arange(len(pool))] = -torch.inf
    among = torch.cat([matched.unsqueeze(1), logits], dim=1)
    return ptr_scores(matched_log_posteriors(matched, among), among.isfinite().sum(dim=1))
