"""The belief recursion at inference: z_{t+1} = B(C_t, E_t), carried between chunks and reset with each episode."""

from __future__ import annotations

import torch
from torch import Tensor

from ptr_robot.errors import ConfigError, ShapeError
from ptr_robot.method.ptr.belief import BeliefTokenizer
from ptr_robot.policy.interface import Policy, Prediction
from ptr_robot.policy.noise import Noise
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

    def predict(
        self,
        observation: Observation,
        *,
        noise: Noise,
        is_first: Tensor | None = None,  # (N,) bool: rows whose episode begins with this chunk
    ) -> Prediction:
        """Sample the next chunk of each row and move its belief on."""
        belief = self._current(observation.batch_size, is_first)
        prediction, self.belief = self.predict_from(belief, observation, noise=noise)
        return prediction

    @torch.no_grad()
    def predict_from(
        self, belief: Tensor | None, observation: Observation, *, noise: Noise
    ) -> tuple[Prediction, Tensor | None]:
        """Sample a chunk given z_t, and z_{t+1}; for those who keep the beliefs themselves."""
        if self.tokenizer is None:
            return self.policy.predict(observation, noise=noise), None
        prediction = self.policy.predict(observation, belief, noise=noise)
        return prediction, self.tokenizer(prediction.action_states, prediction.action_tokens).next_tokens

    def initial(self, count: int) -> Tensor | None:  # (N, M, Da)
        """What an episode begins with; None without a tokenizer."""
        return None if self.tokenizer is None else self.tokenizer.initial(count).detach()

    def _current(self, count: int, is_first: Tensor | None) -> Tensor | None:  # (N, M, Da)
        initial = self.initial(count)
        if self.belief is None or initial is None:
            return initial
        if self.belief.shape[0] != count:
            raise ShapeError(
                f"the last chunk had {self.belief.shape[0]} rows and this one has {count}; call reset() when the "
                "environments change"
            )
        if is_first is None:
            return self.belief
        return torch.where(is_first.view(-1, 1, 1), initial, self.belief)
