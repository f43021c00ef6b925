"""Belief between a policy's looks: z_t moves on as often as it did in training, however often the policy looks."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class CarriedBelief:
    """What an episode remembers; a look before the chunk is over is given the same z_t."""

    now: Tensor | None = None  # (..., M, Da) z_t; None: an episode's first, or a policy without belief
    following: Tensor | None = None  # z_{t+1}, by the look with which the chunk began
    num_actions: int = 0  # carried out since that look

    def at_look(self, period: int) -> CarriedBelief:
        """As it is when the policy looks again; in training ``period`` steps lay between one chunk and the next."""
        return self if self.num_actions < period else CarriedBelief(self.following)

    def after_look(self, found: Tensor | None, num_actions: int) -> CarriedBelief:
        """``found`` is z_{t+1} by this look, and ``num_actions`` of its actions are carried out."""
        following = self.following if self.num_actions else found
        return CarriedBelief(self.now, following, self.num_actions + num_actions)
