"""The trunk at inference: the context is encoded once, and every pass over actions reuses its keys and values."""

from __future__ import annotations

import torch
from torch import Tensor

from ptr_robot.policy.vla.sequence import Context, action_mask
from ptr_robot.policy.vla.trunk import KeysValues, MixtureOfTransformers, TrunkOutput


class CachedDecoder:
    """Hidden states on action positions, given a context that has been encoded."""

    def __init__(
        self,
        trunk: MixtureOfTransformers,
        keys_values: tuple[KeysValues, ...],
        valid: Tensor,  # (N, P) bool, over what is in the cache
        *,
        is_causal: bool,
    ) -> None:
        self.trunk = trunk
        self.keys_values = keys_values
        self.valid = valid
        self.is_causal = is_causal

    @staticmethod
    def start(trunk: MixtureOfTransformers, context: Context, *, is_causal: bool) -> tuple[CachedDecoder, TrunkOutput]:
        """Encode a context; returns the decoder behind it and the context's hidden states."""
        output = trunk(context.und, context.gen, trunk.layout(context.positions, context.mask()))
        return CachedDecoder(trunk, output.keys_values, context.valid, is_causal=is_causal), output

    def states(self, tokens: Tensor) -> Tensor:  # (N, n, D) -> (N, n, D)
        """Hidden states on the next positions; nothing is kept."""
        return self._run(tokens).gen

    def extend(self, tokens: Tensor) -> Tensor:  # (N, n, D) -> (N, n, D)
        """Hidden states on the next positions, which later calls see and follow."""
        output = self._run(tokens)
        self.keys_values = output.keys_values
        self.valid = torch.cat([self.valid, _all_true(tokens)], dim=1)
        return output.gen

    def _run(self, tokens: Tensor) -> TrunkOutput:
        steps = torch.arange(tokens.shape[1], device=tokens.device)
        positions = self.valid.sum(dim=1, keepdim=True) + steps
        mask = action_mask(self.valid, _all_true(tokens), is_causal=self.is_causal)
        nothing = tokens.new_zeros((tokens.shape[0], 0, self.trunk.config.context.width))
        output: TrunkOutput = self.trunk(nothing, tokens, self.trunk.layout(positions, mask), self.keys_values)
        return output


def _all_true(tokens: Tensor) -> Tensor:  # (N, n, D) -> (N, n)
    return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
