"""BeliefTokenizer: L per-step features of a chunk become M tokens that the next chunk's context sees."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ptr_robot.method.ptr.config import BeliefConfig


@dataclass(frozen=True)
class BeliefOutput:
    """One chunk, tokenized."""

    next_tokens: Tensor  # (N, M, D) z_{t+1}, cut from the graph
    reconstructions: Tensor  # (N, L, D) c̃_{t,i}, in the graph
    entropies: Tensor  # (N,) H_tok of each sample
    overlaps: Tensor  # (N,) D_tok of each sample


class BeliefTokenizer(nn.Module):
    """B of Eq. contract: fuse, assign softly over time, merge (Eqs. tok_fuse to tok_div)."""

    def __init__(self, config: BeliefConfig, *, state_dim: int, action_dim: int) -> None:
        super().__init__()
        self.config = config
        self.fuse = nn.Linear(state_dim + action_dim, action_dim, bias=False)  # W_f
        self.assign = nn.Linear(action_dim, config.num_tokens, bias=False)  # W_a
        self.initial_tokens = nn.Parameter(torch.randn(config.num_tokens, action_dim) * 0.02)  # z_init

    def initial(self, batch_size: int) -> Tensor:  # (B, M, D)
        """The learned tokens that a segment starts from."""
        return self.initial_tokens.expand(batch_size, -1, -1)

    def forward(
        self,
        action_states: Tensor,  # (N, L, Dc) C_t
        action_tokens: Tensor,  # (N, L, D) A_t
        is_real_step: Tensor | None = None,  # (N, L) bool, True on real steps
    ) -> BeliefOutput:
        """Tokenize one chunk of each sample."""
        assignments, tokens = self.merge(action_states, action_tokens, is_real_step)
        with torch.autocast(tokens.device.type, enabled=False):  # averages and regularisers in float32
            return BeliefOutput(
                # Cuts the path through time: the tokenizer learns from the current chunk's losses only.
                next_tokens=tokens.detach(),
                reconstructions=assignments @ tokens,  # Eq. tok_perstep
                entropies=slot_entropies(assignments),
                overlaps=slot_overlaps(assignments),
            )

    def merge(
        self,
        action_states: Tensor,  # (N, L, Dc)
        action_tokens: Tensor,  # (N, L, D)
        is_real_step: Tensor | None = None,  # (N, L)
    ) -> tuple[Tensor, Tensor]:  # (N, L, M) π, (N, M, D)
        """The assignments and the tokens alone: all that the recursion itself needs."""
        features = torch.cat([action_states, action_tokens], dim=-1).to(self.fuse.weight.dtype)
        fused = torch.tanh(self.fuse(features))  # (N, L, D) c_{t,i}
        assignments = self.assignments(fused, is_real_step)
        with torch.autocast(fused.device.type, enabled=False):
            return assignments, assignments.transpose(1, 2) @ fused.float()  # Eq. tok_merge

    def assignments(self, fused: Tensor, is_real_step: Tensor | None = None) -> Tensor:  # (N, L, M)
        """Each slot's distribution over the steps of the chunk (Eq. tok_assign), in float32."""
        logits = self.assign(fused).float() / self.config.temperature
        if is_real_step is not None:
            logits = logits.masked_fill(~is_real_step.unsqueeze(-1), float("-inf"))
        assignments: Tensor = logits.softmax(dim=1)
        return assignments


def slot_entropies(assignments: Tensor) -> Tensor:  # (N, L, M) -> (N,)
    """Mean entropy of the slots' distributions over time (Eq. tok_entropy)."""
    # A masked step has probability zero, where the entropy's slope is infinite; its gradient is cut to zero.
    positive = assignments.clamp_min(torch.finfo(assignments.dtype).tiny)
    entropies: Tensor = torch.special.entr(positive).sum(dim=1)  # (N, M)
    return entropies.mean(dim=-1)


def slot_overlaps(assignments: Tensor) -> Tensor:  # (N, L, M) -> (N,)
    """Squared Frobenius distance of the slots' Gram matrix from the identity (Eq. tok_div)."""
    gram = assignments.transpose(1, 2) @ assignments  # (N, M, M)
    identity = torch.eye(gram.shape[-1], device=gram.device, dtype=gram.dtype)
    return (gram - identity).square().sum(dim=(1, 2))
