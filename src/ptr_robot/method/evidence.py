"""From features to evidence: queries, posterior, score and the scorer's loss terms for each sample (Section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ptr_robot.method.config import ScorerConfig
from ptr_robot.method.folds import training_shares
from ptr_robot.method.pool import Candidates
from ptr_robot.method.posterior import cosine_logits, identify, matched_logits, ptr_scores, ranking_terms
from ptr_robot.method.scorer import QueryHeads


@dataclass(frozen=True)
class Evidence:
    """What the scorer found for each of ``N`` samples; a sample that was not scored holds zeros and one candidate."""

    scores: Tensor  # (N,) T_t, constant
    log_posteriors: Tensor  # (N,) constant
    margins: Tensor  # (N,) constant: matched logit minus the best mismatched one
    candidate_counts: Tensor  # (N,) int64 |Y_t|
    is_valid: Tensor  # (N,) bool: has a target, so it is in the scorer's losses
    is_scored: Tensor  # (N,) bool: valid, and judged by a head that has learnt something
    identification: Tensor  # (N,) −log p̂, in the graph
    ranking: Tensor  # (N,) −log σ(d⁺ − d⁻), in the graph
    head_samples: Tensor  # (F,) how many of these samples train each head

    @staticmethod
    def none(count: int, num_folds: int, device: torch.device) -> Evidence:
        """Nothing known about any sample: every score is zero."""
        zeros = torch.zeros(count, device=device)
        never = torch.zeros(count, dtype=torch.bool, device=device)
        ones = torch.ones(count, dtype=torch.int64, device=device)
        heads = torch.zeros(num_folds, device=device)
        return Evidence(zeros, zeros, zeros, ones, never, never, zeros, zeros, heads)


class TransitionScorer(nn.Module):
    """Asks, for each sample, how surely its consequence can be told from mismatched ones."""

    samples_seen: Tensor

    def __init__(self, config: ScorerConfig, *, context_dim: int, summary_dim: int, target_dim: int) -> None:
        super().__init__()
        self.config = config
        self.heads = QueryHeads(config, context_dim=context_dim, summary_dim=summary_dim, target_dim=target_dim)
        self.register_buffer("samples_seen", torch.zeros(config.num_folds))

    def forward(
        self,
        contexts: Tensor,  # (N, Dh) h_t
        summaries: Tensor,  # (N, De) e_t
        other_summaries: Tensor,  # (N, De) ẽ_t: another sample's, constant
        candidates: Candidates,
        is_valid: Tensor,  # (N,) bool
        has_other: Tensor,  # () bool: whether ẽ_t is another sample's at all
        folds: Tensor,  # (N,) int64
        temperature: float,
    ) -> Evidence:
        """Posterior and score by each sample's own head, losses by the heads it trains."""
        config = self.config
        targets = candidates.targets[candidates.positive_column]  # (N, Dy)
        context = self.heads.embed_context(contexts)
        queries = self.heads.combine(context, summaries)  # (F, N, Dy) u⁺
        other_queries = self.heads.combine(context, other_summaries)  # (F, N, Dy) u⁻
        found = identify(cosine_logits(queries, candidates.targets, temperature, config.logit_clamp), candidates)
        mismatched = matched_logits(other_queries, targets, temperature, config.logit_clamp)
        shares = training_shares(folds, config.num_folds) * is_valid  # (F, N)
        own = folds.unsqueeze(0)
        # Cuts the path from weights to features: the policy cannot raise its own weights through the scorer.
        log_posteriors = found.log_posteriors.detach().gather(0, own).squeeze(0)
        margins = (found.matched.detach() - found.best_negatives).gather(0, own).squeeze(0)
        is_scored = is_valid
        if config.num_folds > 1:
            is_scored = is_valid & (self.samples_seen[folds] > 0)
        return Evidence(
            scores=_where(is_scored, ptr_scores(log_posteriors, candidates.counts)),
            log_posteriors=_where(is_scored, log_posteriors),
            margins=_where(is_scored & margins.isfinite(), margins),
            candidate_counts=torch.where(is_valid, candidates.counts, 1),
            is_valid=is_valid,
            is_scored=is_scored,
            identification=-(shares * found.log_posteriors).sum(dim=0),
            ranking=(shares * ranking_terms(found.matched, mismatched)).sum(dim=0) * has_other,
            head_samples=(shares > 0).sum(dim=1).float(),
        )


def _where(condition: Tensor, values: Tensor) -> Tensor:
    return torch.where(condition, values, torch.zeros_like(values))
