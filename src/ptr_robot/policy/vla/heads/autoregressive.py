"""Autoregressive actions: each step of the chunk is one token, made of one bin for each slot.

Position l is fed step l − 1 (a learned start at l = 0) and answers with the bins of step l: steps condition on all
earlier steps, slots of one step are independent given them. A chunk costs L tokens whatever the number of joints.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ptr_robot.data.segments.batch import UNIFIED_DIM
from ptr_robot.policy.noise import Noise, Purpose
from ptr_robot.policy.vla.config import AutoregressiveConfig
from ptr_robot.policy.vla.heads.base import ActionDecoder, ActionHead, PreparedChunk, SampledChunk


class AutoregressiveHead(ActionHead):
    """Bins in, logits over bins out; embeddings of bins are shared by all slots and placed by a projection."""

    is_causal = True

    def __init__(self, config: AutoregressiveConfig, width: int) -> None:
        super().__init__()
        self.config = config
        self.start = nn.Parameter(torch.randn(width) * width**-0.5)
        self.bin_embedding = nn.Embedding(config.num_bins, config.bin_dim)
        self.project = nn.Linear(UNIFIED_DIM * config.bin_dim, width)
        self.output = nn.Linear(width, UNIFIED_DIM * config.bin_dim)
        self.bin_logits = nn.Linear(config.bin_dim, config.num_bins)

    def embed(self, actions: Tensor, action_mask: Tensor) -> Tensor:
        """The token embeddings of the recorded steps, not shifted."""
        return self._embed_bins(to_bins(actions, self.config), action_mask)

    def prepare(self, actions: Tensor, action_mask: Tensor, noise: Noise) -> PreparedChunk:  # noqa: ARG002
        """Teacher forcing: the recorded steps, one position late. Nothing is drawn."""
        bins = to_bins(actions, self.config)
        tokens = self._embed_bins(bins, action_mask)
        start = self.start.to(tokens.dtype).expand(tokens.shape[0], 1, -1)
        return PreparedChunk(tokens=torch.cat([start, tokens[:, :-1]], dim=1), targets=bins)

    def errors(self, states: Tensor, prepared: PreparedChunk, action_mask: Tensor) -> Tensor:
        """Cross-entropy of each slot that any robot of the batch has."""
        slots = action_mask.any(dim=0).nonzero().squeeze(1)  # (A,)
        logits = self._logits(states, slots)  # (N, L, A, bins)
        losses = F.cross_entropy(logits.flatten(0, 2), prepared.targets[..., slots].flatten(), reduction="none")
        spread = torch.zeros(prepared.targets.shape, device=losses.device)
        return spread.index_copy(2, slots, losses.view(logits.shape[:3]))

    def sample(self, decoder: ActionDecoder, action_mask: Tensor, chunk_length: int, noise: Noise) -> SampledChunk:
        """Decode step by step, each step seeing the ones before it."""
        slots = action_mask.any(dim=0).nonzero().squeeze(1)
        tokens = self.start.expand(action_mask.shape[0], 1, -1)
        states, steps = [], []
        for step in range(chunk_length):
            states.append(decoder.extend(tokens))
            bins = self._choose(self._logits(states[-1], slots), noise, step * UNIFIED_DIM + slots)
            empty = torch.zeros((*bins.shape[:2], UNIFIED_DIM), dtype=torch.int64, device=bins.device)
            steps.append(empty.index_copy(2, slots, bins))
            tokens = self._embed_bins(steps[-1], action_mask)
        actions = from_bins(torch.cat(steps, dim=1), self.config) * action_mask.unsqueeze(1)
        return SampledChunk(actions=actions, states=torch.cat(states, dim=1))

    def _embed_bins(self, bins: Tensor, action_mask: Tensor) -> Tensor:  # (N, L, 200) -> (N, L, D)
        embedded = self.bin_embedding(bins) * action_mask[:, None, :, None]
        tokens: Tensor = self.project(embedded.flatten(2))
        return tokens

    def _logits(self, states: Tensor, slots: Tensor) -> Tensor:  # (N, L, D), (A,) -> (N, L, A, bins)
        features = self.output(states).unflatten(-1, (UNIFIED_DIM, self.config.bin_dim))
        logits: Tensor = self.bin_logits(features[:, :, slots]).float()
        return logits

    def _choose(self, logits: Tensor, noise: Noise, places: Tensor) -> Tensor:  # (N, 1, A, bins), (A,) -> (N, 1, A)
        if self.config.temperature == 0:
            return logits.argmax(dim=-1)
        cumulative = (logits / self.config.temperature).softmax(dim=-1).cumsum(dim=-1)
        drawn = noise.uniform(Purpose.CHOICE, places)[:, None, :, None] * cumulative[..., -1:]
        return (cumulative <= drawn).sum(dim=-1).clamp_max(self.config.num_bins - 1)


def to_bins(actions: Tensor, config: AutoregressiveConfig) -> Tensor:  # (...) float -> (...) int64
    """The bin of each value; values beyond the limit fall into the outermost bins."""
    shares = (actions + config.bin_limit) / (2 * config.bin_limit)
    return (shares * config.num_bins).floor().long().clamp(0, config.num_bins - 1)


def from_bins(bins: Tensor, config: AutoregressiveConfig) -> Tensor:  # (...) int64 -> (...) float
    """The middle of each bin."""
    return (bins + 0.5) * (2 * config.bin_limit / config.num_bins) - config.bin_limit
