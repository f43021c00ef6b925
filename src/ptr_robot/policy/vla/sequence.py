"""The order of tokens, and who attends to whom.

The sequence is: prompt, image tokens of each view, state, instruction, belief, actions. Each token has a rank, and
attends to the valid tokens whose rank is not above its own. Text tokens have a rank each, so language is causal; all
image tokens share one rank, so vision is bidirectional; state and belief tokens share one each. Actions rank above the
whole context, so no context token ever depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Part:
    """Tokens of one kind."""

    tokens: Tensor  # (N, n, D)
    valid: Tensor  # (N, n) bool
    is_causal: bool  # True: a rank for each token; False: one rank for all
    is_gen: bool = False  # True: tokens of the gen stream
    is_for_actions: bool = False  # True: no other context token attends to these, only actions do


@dataclass(frozen=True)
class Context:
    """Everything before the actions, with the tokens of each stream side by side.

    Columns of ``valid``, ``positions`` and ``ranks`` follow the streams (first all of ``und``, then all of ``gen``);
    rotary positions follow the order of the sequence and skip padding, so padding changes nothing.
    """

    und: Tensor  # (N, U, Du) prompt, images, instruction
    gen: Tensor  # (N, G, Dg) state, belief
    valid: Tensor  # (N, C) bool, C = U + G
    positions: Tensor  # (N, C) int64
    ranks: Tensor  # (C,) int64
    is_for_actions: Tensor  # (C,) bool: tokens that the rest of the context does not see
    pooled_gen: tuple[int, ...]  # places in ``gen`` of the tokens that h_t pools, the same for every sample

    @property
    def num_valid(self) -> Tensor:  # (N, 1)
        """How many real tokens each context has: the position of its first action."""
        return self.valid.sum(dim=1, keepdim=True)

    def mask(self) -> Tensor:  # (N, C, C) bool
        """Which context token attends to which; padding attends to itself, so that no row is empty."""
        ordered = (self.ranks.unsqueeze(1) >= self.ranks) & (~self.is_for_actions | self.is_for_actions.unsqueeze(1))
        itself = torch.eye(len(self.ranks), dtype=torch.bool, device=self.ranks.device)
        return (ordered & self.valid.unsqueeze(1)) | itself


def arrange(parts: Sequence[Part]) -> Context:
    """Lay out a context from its parts in the order of the sequence."""
    valid = torch.cat([part.valid for part in parts], dim=1)
    is_gen = torch.cat([torch.full((part.tokens.shape[1],), part.is_gen) for part in parts])
    is_for_actions = torch.cat([torch.full((part.tokens.shape[1],), part.is_for_actions) for part in parts])
    columns = is_gen.to(torch.int8).argsort(stable=True).to(valid.device)  # und first, each stream in order
    return Context(
        und=torch.cat([part.tokens for part in parts if not part.is_gen], dim=1),
        gen=torch.cat([part.tokens for part in parts if part.is_gen], dim=1),
        valid=valid[:, columns],
        positions=_positions(valid)[:, columns],
        ranks=_ranks(parts).to(valid.device)[columns],
        is_for_actions=is_for_actions.to(valid.device)[columns],
        pooled_gen=_pooled_gen(parts),
    )


def _pooled_gen(parts: Sequence[Part]) -> tuple[int, ...]:
    """Known from the parts alone: a mask would have to be read back from the device in every pass."""
    flags = [not part.is_for_actions for part in parts if part.is_gen for _ in range(part.tokens.shape[1])]
    return tuple(place for place, is_pooled in enumerate(flags) if is_pooled)


def belief_mask(context_valid: Tensor, num_tokens: int, num_actions: int) -> Tensor:  # (N, M, C + M + L) bool
    """Belief tokens attend to the context before them and to each other, never to actions."""
    count, device = context_valid.shape[0], context_valid.device
    among = torch.ones((count, num_tokens), dtype=torch.bool, device=device)
    actions = torch.zeros((count, num_actions), dtype=torch.bool, device=device)
    return torch.cat([context_valid, among, actions], dim=1).unsqueeze(1).expand(-1, num_tokens, -1)


def action_mask(context_valid: Tensor, is_real_step: Tensor, *, is_causal: bool) -> Tensor:  # (N, L, C + L) bool
    """Actions attend to the whole context and to each other; ``is_causal``: to earlier actions alone."""
    length = is_real_step.shape[1]
    among = torch.ones((length, length), dtype=torch.bool, device=is_real_step.device)
    itself = torch.eye(length, dtype=torch.bool, device=is_real_step.device)
    among = ((among.tril() if is_causal else among) & is_real_step.unsqueeze(1)) | itself
    return torch.cat([context_valid.unsqueeze(1).expand(-1, length, -1), among], dim=2)


def joint_mask(context: Context, actions: Tensor) -> Tensor:  # (N, C + L, C + L) bool
    """The mask of the joint pass: the context's rows never reach the actions' columns."""
    length = actions.shape[1]
    context_rows = torch.nn.functional.pad(context.mask(), (0, length), value=False)
    return torch.cat([context_rows, actions], dim=1)


def _positions(valid: Tensor) -> Tensor:  # (N, n) -> (N, n)
    """Each token's place among the real tokens of its own sequence."""
    return (valid.cumsum(dim=1) - 1).clamp_min(0)


def _ranks(parts: Sequence[Part]) -> Tensor:  # (n,)
    ranks: list[Tensor] = []
    following = 0
    for part in parts:
        count = part.tokens.shape[1]
        ranks.append(following + (torch.arange(count) if part.is_causal else torch.zeros(count, dtype=torch.int64)))
        following += count
    return torch.cat(ranks)
