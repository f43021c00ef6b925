"""The transition scorer's network: light query heads over the policy's features (Section 4.2)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ptr_robot.method.ptr.config import ScorerConfig


class StackedLinear(nn.Module):
    """One linear layer for each fold, applied together; Xavier-initialised."""

    def __init__(self, num_folds: int, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_folds, in_dim, out_dim))
        self.bias = nn.Parameter(torch.zeros(num_folds, 1, out_dim))
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)

    def forward(self, inputs: Tensor, fold: int | None = None) -> Tensor:  # (N, in) or (F, N, in) -> (F, N, out)
        """Each fold's own map of the inputs; that of one ``fold`` alone: (N, in) -> (N, out)."""
        weight, bias = (self.weight, self.bias) if fold is None else (self.weight[fold], self.bias[fold])
        return inputs.to(weight.dtype) @ weight + bias


class QueryHeads(nn.Module):
    """f(h, e): ``num_folds`` light heads over the same features, sharing no parameter.

    The action summary passes a two-layer MLP before it meets the context, and the sum a non-linearity before the target
    space, so that what an action does may depend on the context.
    """

    def __init__(self, config: ScorerConfig, *, context_dim: int, summary_dim: int, target_dim: int) -> None:
        super().__init__()
        folds, hidden = config.num_folds, config.hidden_dim
        self.context = StackedLinear(folds, context_dim, hidden)
        self.action_in = StackedLinear(folds, summary_dim, hidden)
        self.action_out = StackedLinear(folds, hidden, hidden)
        self.output = StackedLinear(folds, hidden, target_dim)

    def forward(self, contexts: Tensor, summaries: Tensor) -> Tensor:  # (N, Dh), (N, De) -> (F, N, Dy)
        """Unit-length queries in float32, one for each head and sample."""
        return self.combine(self.embed_context(contexts), summaries)

    def embed_context(self, contexts: Tensor) -> Tensor:  # (N, Dh) -> (F, N, hidden)
        """The part of the query that does not depend on the action."""
        embedded: Tensor = self.context(F.layer_norm(contexts, contexts.shape[-1:]))
        return embedded

    def combine(self, context: Tensor, summaries: Tensor) -> Tensor:  # (F, N, hidden), (N, De) -> (F, N, Dy)
        """The query of an embedded context and an action summary."""
        action = self.action_out(F.gelu(self.action_in(F.layer_norm(summaries, summaries.shape[-1:]))))
        query: Tensor = self.output(F.gelu(context + action))
        return F.normalize(query.float(), dim=-1)
