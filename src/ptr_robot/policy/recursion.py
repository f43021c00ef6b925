"""The belief recursion at inference: z_{t+1} = B(C_t, E_t), carried between chunks and reset with each episode."""

from __future__ import annotations

import torch
from torch import Tensor

from ptr_robot.errors import ConfigError, ShapeError
from ptr_robot.method.belief import BeliefTokenizer
from ptr_robot.policy.interface import Policy, Prediction
from ptr_robot.policy.observation import Observation


class ChunkPredictor:
    """A policy with a memory: one row of belief for each of N environments that run side by side."""

    def __init__(self, policy: Policy, tokenizer: BeliefTokenizer | None = None) -> None:
        if tokenizer is not None and tokenizer.config.num_tokens != policy.sizes.num_belief_tokens:
            raise ConfigError(
                f"the belief tokenizer gives {tokenizer.config.num_tokens} tokens and the policy takes "
                f"{policy.sizes.num_belief_tokens}; set both to one number"
            )
        self.policy = policy
        self.tokenizer = tokenizer
        self.belief: Tensor | None = None  # (N, M, Da) z_t

    def reset(self) -> None:
        """Forget everything: the next chunk is the first of its episode in every row."""
        self.belief = None

    @torch.no_grad()
    def predict(
        self,
        observation: Observation,
        *,
        generator: torch.Generator,
        is_first: Tensor | None = None,  # (N,) bool: rows whose episode begins with this chunk
    ) -> Prediction:
        """Sample the next chunk of each row and move its belief on."""
        if self.tokenizer is None:
            return self.policy.predict(observation, generator=generator)
        belief = self._current(observation.batch_size, self.tokenizer, is_first)
        prediction = self.policy.predict(observation, belief, generator=generator)
        self.belief = self.tokenizer(prediction.action_states, prediction.action_tokens).next_tokens
        return prediction

    def _current(self, count: int, tokenizer: BeliefTokenizer, is_first: Tensor | None) -> Tensor:  # (N, M, Da)
        initial = tokenizer.initial(count)
        if self.belief is None:
            return initial
        if self.belief.shape[0] != count:
            raise ShapeError(
                f"the last chunk had {self.belief.shape[0]} rows and this one has {count}; call reset() when the "
                "environments change"
            )
        if is_first is None:
            return self.belief
        return torch.where(is_first.view(-1, 1, 1), initial, self.belief)
