"""The total objective over ranks: a self-normalised weighted action loss and uniform auxiliary terms (Section 4.6)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ptr_robot.method.distributed import sum_over_ranks
from ptr_robot.method.ptr.config import BeliefConfig, ScorerConfig


@dataclass(frozen=True)
class SampleTerms:
    """What each of the rank's ``N`` samples adds to the numerators; rows that do not count hold zero."""

    weighted_action: Tensor  # (N,) sg(w) ℓ_act
    plain_action: Tensor  # (N,) ℓ_act, detached: for the record alone
    weights: Tensor  # (N,) sg(w)
    identification: Tensor  # (N,) −log p̂, discounted
    ranking: Tensor  # (N,) −log σ(d⁺ − d⁻)
    entropies: Tensor  # (N,) H_tok
    overlaps: Tensor  # (N,) D_tok
    is_real: Tensor  # (N,) bool: not padding
    is_valid: Tensor  # (N,) bool: in the scorer's losses


@dataclass(frozen=True)
class Objective:
    """The loss to backpropagate on this rank, and the global values of its parts."""

    weighted_action_sum: Tensor  # () in the graph
    auxiliary_loss: Tensor  # () in the graph
    weight_sum: Tensor  # () global
    sample_count: Tensor  # () global
    action_loss: Tensor  # () global, Eq. weighted_loss
    plain_action_loss: Tensor  # () global mean of ℓ_act, whatever the weights
    identification_loss: Tensor  # () global, Eq. nce
    ranking_loss: Tensor  # () global, Eq. rank
    entropy: Tensor  # () global mean H_tok
    overlap: Tensor  # () global mean D_tok

    @property
    def loss(self) -> Tensor:
        """Eq. total_loss, scaled so that averaging gradients over ranks gives the global gradient."""
        return self.weighted_action_sum / positive(self.weight_sum) + self.auxiliary_loss

    def tokenizer_loss(self, config: BeliefConfig) -> Tensor:
        """L_tok = λ_ent H_tok + λ_div D_tok."""
        return config.entropy_weight * self.entropy + config.diversity_weight * self.overlap


def total_objective(terms: SampleTerms, belief: BeliefConfig, scorer: ScorerConfig, world_size: int) -> Objective:
    """Eq. total_loss with denominators over all ranks: Σw for the action term, counts for the others."""
    sums = torch.stack(
        [
            terms.weighted_action.sum(),
            terms.identification.sum(),
            terms.ranking.sum(),
            terms.entropies.sum(),
            terms.overlaps.sum(),
            terms.weights.sum(),
            terms.is_real.sum().float(),
            terms.is_valid.sum().float(),
            terms.plain_action.sum(),
        ]
    )
    totals = sum_over_ranks(sums)
    weight_sum, real_count, valid_count = totals[5], totals[6].clamp(min=1), totals[7].clamp(min=1)
    # Gradients are averaged over ranks after backward, so each rank's share is scaled up by their number.
    local = sums * world_size if world_size > 1 else sums
    auxiliary = (
        scorer.identification_weight * local[1] / valid_count
        + scorer.ranking_weight * local[2] / valid_count
        + belief.entropy_weight * local[3] / real_count
        + belief.diversity_weight * local[4] / real_count
    )
    return Objective(
        weighted_action_sum=local[0],
        auxiliary_loss=auxiliary,
        weight_sum=weight_sum,
        sample_count=real_count,
        action_loss=totals[0] / positive(weight_sum),
        plain_action_loss=totals[8] / real_count,
        identification_loss=totals[1] / valid_count,
        ranking_loss=totals[2] / valid_count,
        entropy=totals[3] / real_count,
        overlap=totals[4] / real_count,
    )


def positive(weight_sum: Tensor) -> Tensor:
    """Where every sample weighs nothing, the weighted sum is zero, and so is the loss."""
    return torch.where(weight_sum > 0, weight_sum, torch.ones_like(weight_sum))
