"""The identification posterior over candidates, the PTR score and the ranking loss (Section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ptr_robot.method.hashing import hash_integers
from ptr_robot.method.ptr.candidates import Candidates


def cosine_logits(queries: Tensor, targets: Tensor, temperature: float, clamp: float) -> Tensor:
    """d = ⟨u, y⟩ / τ, clamped, of queries (F, N, Dy) against targets (C, Dy): one matrix product, (F, N, C)."""
    with torch.autocast(queries.device.type, enabled=False):
        return (queries @ targets.mT / temperature).clamp(-clamp, clamp)


def matched_logits(queries: Tensor, targets: Tensor, temperature: float, clamp: float) -> Tensor:
    """The same logits of queries (F, N, Dy) against each sample's own target (N, Dy) only: (F, N)."""
    with torch.autocast(queries.device.type, enabled=False):
        return ((queries * targets).sum(dim=-1) / temperature).clamp(-clamp, clamp)


@dataclass(frozen=True)
class Identification:
    """The identification posterior of each head and sample at the matched target."""

    log_posteriors: Tensor  # (F, N) log p̂(I = 0 | h, e, Y)
    matched: Tensor  # (F, N) the matched logit
    best_negatives: Tensor  # (F, N) the largest mismatched logit; −inf where there is none


def identify(logits: Tensor, candidates: Candidates) -> Identification:  # (F, N, C)
    """The softmax over each sample's own candidate set, read at the matched target (Eq. posterior)."""
    index = candidates.positive_column.expand(logits.shape[0], -1).unsqueeze(-1)
    matched = logits.gather(-1, index).squeeze(-1)
    negatives = logits.masked_fill(~candidates.is_negative, float("-inf"))
    # The matched logit takes its place among the negatives, so that one log-sum-exp gives the denominator.
    among = negatives.scatter(-1, index, matched.unsqueeze(-1))
    return Identification(matched_log_posteriors(matched, among), matched, negatives.detach().amax(dim=-1))


def matched_log_posteriors(matched: Tensor, among: Tensor) -> Tensor:  # (...), (..., C) -> (...)
    """log p̂ of the matched logit among the logits of a candidate set, itself included; −inf marks no candidate."""
    return matched - among.logsumexp(dim=-1)


def ptr_scores(log_posteriors: Tensor, candidate_counts: Tensor) -> Tensor:  # (N,), (N,) -> (N,)
    """T = log(p̂ / (1/|Y|)): how far the posterior is from uniform (Eq. score)."""
    return log_posteriors + candidate_counts.to(log_posteriors.dtype).log()


def ranking_terms(matched: Tensor, mismatched: Tensor) -> Tensor:  # (F, N), (F, N) -> (F, N)
    """−log σ(d⁺ − d⁻): the recorded action must explain the target better than another's (Eq. rank)."""
    return F.softplus(mismatched - matched)


def other_samples(sample_ids: Tensor, valid: Tensor, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Another sample's row for each valid row of (G,), and whether there is any: (G,) int64 and () bool.

    Rows follow each other on one random cycle through all valid samples: with distinct samples a derangement. Copies
    of one sample share their successor, which is never a copy of themselves. The cycle follows a hash of the
    identities and depends neither on the rows' order nor on the ranks. Rows that are not valid point anywhere.
    """
    keys = hash_integers(seed, step, sample_ids).masked_fill(~valid, 1 << 32)
    keys, order = keys.sort(stable=True)  # valid rows first, copies side by side
    places = torch.arange(len(keys), device=keys.device)
    is_last_copy = keys != keys.roll(-1)
    is_last_copy[-1] = True
    last_copies = torch.where(is_last_copy, places, len(keys)).flip(0).cummin(dim=0).values.flip(0)
    following = torch.where(last_copies + 1 >= valid.sum(), 0, last_copies + 1)
    partners = torch.empty_like(order).scatter_(0, order, order[following])
    return partners, (is_last_copy & (keys < 1 << 32)).sum() > 1
