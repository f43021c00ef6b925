"""The values that enter and leave PTR: what the policy computed, and what is known about each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class ChunkForward:
    """What a policy's ordinary forward pass over ``N`` action chunks gives to PTR.

    ``contexts`` must pool positions that never attend to an action token; ``action_tokens`` embed the recorded
    actions, ``action_states`` are the hidden states on the action positions of the (noised) training pass.
    """

    action_losses: Tensor  # (N,) unreduced: the mean over valid steps and active dimensions of each sample
    contexts: Tensor  # (N, Dh) h_t
    action_tokens: Tensor  # (N, L, Da) E_t, also A_t
    action_states: Tensor | None = None  # (N, L, Dc) C_t; needed by the belief tokenizer
    action_is_pad: Tensor | None = None  # (N, L) bool: True past the end of the episode; None = all real

    @staticmethod
    def stack(chunks: Sequence[ChunkForward]) -> ChunkForward:
        """The ``T`` chunks of ``B`` segments as one flat batch in (B, T) order."""

        def join(name: str) -> Any:
            values = [getattr(chunk, name) for chunk in chunks]
            return None if values[0] is None else torch.stack(values, dim=1).flatten(0, 1)

        return ChunkForward(**{field.name: join(field.name) for field in fields(ChunkForward)})


@dataclass(frozen=True)
class Samples:
    """What is known about each of the ``N`` chunks besides the policy's view of it."""

    targets: Tensor  # (N, Dy) encoded consequences, of any length; rows without a target may hold anything
    has_target: Tensor  # (N,) bool
    sample_ids: Tensor  # (N,) int64: the identity of the sample in the dataset, the same in every epoch
    episode_ids: Tensor | None = None  # (N,) int64: needed when num_folds > 1
    task_ids: Tensor | None = None  # (N,) int64: for hard negatives
    states: Tensor | None = None  # (N, S) normalised proprioception: for hard negatives
    source_ids: Tensor | None = None  # (N,) int64: for the shares of sources in the diagnostics
    offsets: Tensor | None = None  # (N,) normalised Δ' >= 0: for the offset discount
    chunk_is_pad: Tensor | None = None  # (N,) bool: chunks past an episode's end, which count nowhere
    action_targets: Tensor | None = None  # (N, Dt) the recorded chunk: for the channels action and instruction
    prior_weights: Tensor | None = None  # (N,) >= 0: a factor on each weight that the user brings


@dataclass(frozen=True)
class PTROutput:
    """One training step's loss and what led to it; what is not marked as in the graph is detached.

    Under several processes ``loss`` is scaled so that averaging gradients over ranks (as DDP does) gives the
    gradient of the global objective; the other losses are the global values, the same on every rank.
    """

    loss: Tensor  # () backpropagate this: weighted_action_sum / weight_sum + auxiliary_loss
    weighted_action_sum: Tensor  # () in the graph: Σ w ℓ of this rank, scaled for gradient averaging
    weight_sum: Tensor  # () Σ w over all ranks
    auxiliary_loss: Tensor  # () in the graph: the scorer's and tokenizer's terms with their coefficients
    sample_count: Tensor  # () how many samples, over all ranks, the losses are of
    action_loss: Tensor  # () Eq. weighted_loss
    plain_action_loss: Tensor  # () mean of ℓ_act over the samples, whatever their weights
    identification_loss: Tensor  # () Eq. nce
    ranking_loss: Tensor  # () Eq. rank
    tokenizer_loss: Tensor  # () entropy and diversity terms, with their coefficients
    weights: Tensor  # (N,) float32 w_t
    scores: Tensor  # (N,) float32 T_t; zero where a sample has no target
    log_posteriors: Tensor  # (N,) float32; zero where a sample has no target
    margins: Tensor  # (N,) float32 matched logit minus best mismatched one; zero where there is none
    candidate_counts: Tensor  # (N,) int64 |Y_t|; 1 where a sample has no target
    is_scored: Tensor  # (N,) bool: it has a target, and with folds a head that has been trained
    token_entropy: Tensor  # () H_tok
    token_overlap: Tensor  # () D_tok
