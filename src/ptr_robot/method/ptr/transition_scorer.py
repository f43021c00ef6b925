"""From features to evidence: queries, posterior, score and the scorer's loss terms for each sample (Section 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ptr_robot.method.folds import training_shares
from ptr_robot.method.heads import ChannelHeads, ChannelWidths
from ptr_robot.method.ptr.candidates import Candidates
from ptr_robot.method.ptr.config import ScorerConfig
from ptr_robot.method.ptr.posterior import (
    Identification,
    cosine_logits,
    identify,
    matched_logits,
    ptr_scores,
    ranking_terms,
)
from ptr_robot.method.ptr.scorer import QueryHeads


@dataclass(frozen=True)
class Evidence:
    """What the scorer found for each of ``N`` samples; a sample that was not scored holds zeros and one candidate.

    Of several channels the scores add up; posteriors, margins and candidates are those of the first.
    """

    scores: Tensor  # (N,) T_t, constant
    channel_scores: Tensor  # (N, channels) constant
    log_posteriors: Tensor  # (N,) constant
    margins: Tensor  # (N,) constant: matched logit minus the best mismatched one
    candidate_counts: Tensor  # (N,) int64 |Y_t|
    is_valid: Tensor  # (N,) bool: has a target, so it is in the scorer's losses
    is_scored: Tensor  # (N,) bool: valid, and scored by a head that has been trained
    identification: Tensor  # (N,) −log p̂, summed over channels, in the graph
    ranking: Tensor  # (N,) −log σ(d⁺ − d⁻), in the graph; zero without the channel "transition"
    head_samples: Tensor  # (F,) how many of these samples train each head

    @staticmethod
    def none(count: int, config: ScorerConfig, device: torch.device) -> Evidence:
        """Nothing known about any sample: every score is zero."""
        zeros = torch.zeros(count, device=device)
        never = torch.zeros(count, dtype=torch.bool, device=device)
        return Evidence(
            scores=zeros,
            channel_scores=zeros.unsqueeze(1).expand(-1, len(config.channels)),
            log_posteriors=zeros,
            margins=zeros,
            candidate_counts=torch.ones(count, dtype=torch.int64, device=device),
            is_valid=never,
            is_scored=never,
            identification=zeros,
            ranking=zeros,
            head_samples=torch.zeros(config.num_folds, device=device),
        )


class TransitionScorer(nn.Module):
    """Identifies each sample's consequence among mismatched ones."""

    samples_seen: Tensor

    def __init__(
        self,
        config: ScorerConfig,
        *,
        context_dim: int,
        summary_dim: int,
        target_dim: int,
        state_dim: int = 0,
        action_target_dim: int = 0,
    ) -> None:
        super().__init__()
        self.config = config
        self.widths = ChannelWidths(context_dim, state_dim, target_dim, action_target_dim)
        self.heads: QueryHeads | None = None
        if "transition" in config.channels:
            self.heads = QueryHeads(config, context_dim=context_dim, summary_dim=summary_dim, target_dim=target_dim)
        self.channels = nn.ModuleDict(
            {channel: self._make_heads(channel) for channel in config.channels if channel != "transition"}
        )
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
        channel_inputs: Mapping[str, Tensor] | None = None,  # by channel beyond the transition
    ) -> Evidence:
        """Posterior and score by each sample's own head, losses by the heads it trains."""
        shares = training_shares(folds, self.config.num_folds) * is_valid  # (F, N)
        ranking = torch.zeros(is_valid.shape[0], device=is_valid.device)
        found: list[tuple[Identification, Tensor]] = []
        for channel in self.config.channels:
            among = candidates.of_channel(self.widths.columns(channel), other_tasks_only=channel == "instruction")
            if self.heads is not None and channel == "transition":
                context = self.heads.embed_context(contexts)
                queries = self.heads.combine(context, summaries)  # (F, N, Dy) u⁺
                identified = self._identify(queries, among, temperature)
                other_queries = self.heads.combine(context, other_summaries)  # (F, N, Dy) u⁻
                targets = among.targets[among.positive_column]  # (N, Dy)
                mismatched = matched_logits(other_queries, targets, temperature, self.config.logit_clamp)
                ranking = (shares * ranking_terms(identified.matched, mismatched)).sum(dim=0) * has_other
            else:
                assert channel_inputs is not None
                identified = self._identify(self.channels[channel](channel_inputs[channel]), among, temperature)
            found.append((identified, among.counts))
        return self._evidence(found, ranking, shares, is_valid, folds)

    def _evidence(
        self,
        found: list[tuple[Identification, Tensor]],
        ranking: Tensor,
        shares: Tensor,
        is_valid: Tensor,
        folds: Tensor,
    ) -> Evidence:
        own = folds.unsqueeze(0)
        # Cuts the path from weights to features: the policy cannot raise its own weights through the scorer.
        log_posteriors = [one.log_posteriors.detach().gather(0, own).squeeze(0) for one, _ in found]
        scores = torch.stack(
            [ptr_scores(logs, counts) for logs, (_, counts) in zip(log_posteriors, found, strict=True)], dim=1
        )
        first, counts = found[0]
        margins = (first.matched.detach() - first.best_negatives).gather(0, own).squeeze(0)
        is_scored = is_valid
        if self.config.num_folds > 1:
            is_scored = is_valid & (self.samples_seen[folds] > 0)
        channel_scores = scores.masked_fill(~is_scored.unsqueeze(1), 0.0)
        return Evidence(
            scores=channel_scores.sum(dim=1),
            channel_scores=channel_scores,
            log_posteriors=_where(is_scored, log_posteriors[0]),
            margins=_where(is_scored & margins.isfinite(), margins),
            candidate_counts=torch.where(is_valid, counts, 1),
            is_valid=is_valid,
            is_scored=is_scored,
            identification=-torch.stack([(shares * one.log_posteriors).sum(dim=0) for one, _ in found]).sum(dim=0),
            ranking=ranking,
            head_samples=(shares > 0).sum(dim=1).float(),
        )

    def _identify(self, queries: Tensor, candidates: Candidates, temperature: float) -> Identification:
        logits = cosine_logits(queries, candidates.targets, temperature, self.config.logit_clamp)
        return identify(logits, candidates)

    def _make_heads(self, channel: str) -> ChannelHeads:
        columns = self.widths.columns(channel)
        return ChannelHeads(self.config, input_dim=self.widths.inputs(channel), target_dim=columns.stop - columns.start)


def _where(condition: Tensor, values: Tensor) -> Tensor:
    return torch.where(condition, values, torch.zeros_like(values))
