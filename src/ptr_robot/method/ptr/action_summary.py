"""e_t = pool(E_t): the scorer's view of an action, and the same with another sample's action for the ranking loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ptr_robot.method.distributed import RankLayout, gather_rows
from ptr_robot.method.ptr.belief import BeliefOutput, BeliefTokenizer
from ptr_robot.method.ptr.gradients import without_gradients
from ptr_robot.method.types import ChunkForward


@dataclass(frozen=True)
class ActionSummaries:
    """Summaries of one batch; with a ``tokenizer`` its reconstructions c̃ join them (``belief.informs_scorer``)."""

    chunk: ChunkForward
    is_real_step: Tensor | None  # (N, L) bool, True on real steps
    tokenizer: BeliefTokenizer | None

    def recorded(self, tokenized: BeliefOutput | None) -> Tensor:  # (N, De)
        """e_t of the recorded action."""
        summaries = _pool(self.chunk.action_tokens, self.is_real_step)
        if self.tokenizer is None or tokenized is None:
            return summaries
        reconstructed = _pool(tokenized.reconstructions, self.is_real_step)
        return torch.cat([summaries, reconstructed.to(summaries.dtype)], dim=1)

    @torch.no_grad()  # another action enters as a constant: the recorded one must explain the target
    def exchanged(self, partners: Tensor, layout: RankLayout) -> Tensor:  # (N,) rows of the global batch -> (N, De)
        """ẽ_t: the same with another sample's action.

        c̃ is computed again, from the sample's own C_t and the other action: the c̃ of the other sample would bring that
        sample's context along, and the ranking loss could fall without looking at the action. It is of the steps that
        are real in both.
        """
        is_real_step = self.is_real_step
        summaries = gather_rows(_pool(self.chunk.action_tokens, is_real_step), layout)[partners]
        if self.tokenizer is None:
            return summaries
        assert self.chunk.action_states is not None  # belief tokens need them
        tokens = gather_rows(self.chunk.action_tokens, layout)[partners]
        if is_real_step is not None:
            is_real_step = is_real_step & gather_rows(is_real_step.to(torch.uint8), layout)[partners].bool()
        with without_gradients():
            exchanged: BeliefOutput = self.tokenizer(self.chunk.action_states, tokens, is_real_step)
        reconstructed = _pool(exchanged.reconstructions, is_real_step)
        return torch.cat([summaries, reconstructed.to(summaries.dtype)], dim=1)


def _pool(values: Tensor, is_real_step: Tensor | None) -> Tensor:  # (N, L, D), (N, L) -> (N, D)
    """The mean over real steps."""
    if is_real_step is None:
        return values.mean(dim=1)
    share = is_real_step / is_real_step.sum(dim=1, keepdim=True).clamp_min(1)
    return (values * share.unsqueeze(-1).to(values.dtype)).sum(dim=1)
