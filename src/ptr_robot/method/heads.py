"""What may be identified besides the paper's transition: outcome, action and instruction, each by the same posterior.

Each identifies something recorded among mismatched ones:

- ``transition``: the consequence, from the context and the recorded action. The paper's.
- ``outcome``: the consequence, from the context alone. An executed fault has the consequence that its action
  explains; that this context does not usually lead to it shows only where the action is withheld.
- ``action``: the recorded action chunk, from the context alone.
- ``instruction``: the instruction, from the state, the action and the consequence, none of which has read it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ptr_robot.method.hashing import hash_integers
from ptr_robot.method.ptr.config import ScorerConfig
from ptr_robot.method.ptr.scorer import StackedLinear
from ptr_robot.method.types import Samples

INSTRUCTION_DIM = 32


@dataclass(frozen=True)
class ChannelWidths:
    """Widths of what channels read and identify."""

    context: int  # Dh
    state: int  # S
    target: int  # Dy
    action_target: int  # Dt; 0: recorded chunks are not handed in

    def inputs(self, channel: str) -> int:
        """How wide the query's input is."""
        if channel == "instruction":
            return self.state + self.target + self.action_target
        return self.context + self.state

    def columns(self, channel: str) -> slice:
        """Where the channel's target is in a row of all targets."""
        if channel == "action":
            return slice(self.target, self.target + self.action_target)
        if channel == "instruction":
            first = self.target + self.action_target
            return slice(first, first + INSTRUCTION_DIM)
        return slice(0, self.target)


def extra_targets(samples: Samples, eps: float) -> Tensor:  # (N, Dt + I)
    """The recorded chunk and a code of the instruction, each of unit length: what follows the consequence in a row."""
    assert samples.action_targets is not None
    assert samples.task_ids is not None
    actions = F.normalize(samples.action_targets.float(), dim=1, eps=eps)
    return torch.cat([actions, instruction_codes(samples.task_ids)], dim=1)


def instruction_codes(task_ids: Tensor) -> Tensor:  # (N,) -> (N, I)
    """Unit vectors, one for each instruction: nearly orthogonal for tens of them, alike by chance among thousands."""
    places = torch.arange(INSTRUCTION_DIM, device=task_ids.device)
    signs = 1.0 - 2.0 * (hash_integers(task_ids.unsqueeze(1), places) & 1)
    codes: Tensor = signs / INSTRUCTION_DIM**0.5
    return codes


def channel_inputs(channel: str, contexts: Tensor, samples: Samples) -> Tensor:  # (N, inputs)
    """What the channel's heads look at; no channel sees what it has to identify."""
    states = samples.states if samples.states is not None else contexts.new_zeros(contexts.shape[0], 0)
    if channel == "instruction":
        assert samples.action_targets is not None
        consequences = torch.where(samples.has_target.unsqueeze(1), samples.targets.float(), 0.0)
        return torch.cat([states.float(), F.normalize(consequences, dim=1), samples.action_targets.float()], dim=1)
    return torch.cat([F.layer_norm(contexts.float(), contexts.shape[-1:]), states.float()], dim=1)


class ChannelHeads(nn.Module):
    """``num_folds`` two-layer heads that share no parameter: from a channel's inputs to its target space."""

    def __init__(self, config: ScorerConfig, *, input_dim: int, target_dim: int, is_direction: bool = True) -> None:
        super().__init__()
        folds, hidden = config.num_folds, config.hidden_dim
        self.num_folds, self.target_dim = folds, target_dim
        self.is_direction = is_direction  # whether queries have unit length
        self.first = StackedLinear(folds, input_dim, hidden)
        self.second = StackedLinear(folds, hidden, hidden)
        self.output = StackedLinear(folds, hidden, target_dim)

    def forward(self, inputs: Tensor, fold: int | None = None) -> Tensor:  # (N, inputs) -> (F, N, D)
        """Queries in float32; those of one ``fold``'s head alone: (N, D)."""
        hidden = F.silu(self.second(F.silu(self.first(inputs, fold)), fold))
        query: Tensor = self.output(hidden, fold).float()
        return F.normalize(query, dim=-1) if self.is_direction else query
