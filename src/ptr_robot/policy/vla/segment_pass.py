"""The training pass over segments: what does not depend on the belief once for all chunks, the rest chunk by chunk.

Prompt, images, state and instruction never attend to the belief, so one pass over all T chunks gives their hidden
states, keys and values. What waits for z_t is a short sequence, the belief and action tokens, which attends to them.
The numbers are those of ``forward_chunk``, with a few operations less: context tokens are not compared with actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ptr_robot.method.types import ChunkForward
from ptr_robot.policy.interface import TrainingChunk
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation
from ptr_robot.policy.vla.heads.base import PreparedChunk, per_sample_mean
from ptr_robot.policy.vla.sequence import Context, action_mask, belief_mask
from ptr_robot.policy.vla.trunk import KeysValues, Layout, TrunkOutput

if TYPE_CHECKING:
    from ptr_robot.policy.vla.policy import MixturePolicy


class SegmentPass:
    """Rows are ordered by chunk, so that those of one chunk lie together and are split off without a copy."""

    def __init__(self, policy: MixturePolicy, chunks: Sequence[TrainingChunk]) -> None:
        observation = Observation.join([chunk.observation for chunk in chunks])
        recorded = ActionChunk.join([chunk.recorded for chunk in chunks])
        noise = Noise.join([chunk.noise for chunk in chunks])
        policy.check_chunk(observation, recorded, noise)
        self._policy = policy
        self._chunks = chunks
        self._size = chunks[0].observation.batch_size  # B
        context = policy.context(observation, augmentation=noise if policy.training else None)
        self._valid = context.valid  # (T B, C)
        self._is_real_step = ~recorded.action_is_pad  # (T B, L)
        self._layouts: dict[int, list[Layout]] = {}
        layout = policy.trunk.layout(context.positions, context.mask())
        output: TrunkOutput = policy.trunk(context.und, context.gen, layout)
        self._und = torch.split(pool_und(context, output), self._size)
        self._gen = torch.split(output.gen[:, context.pooled_gen], self._size)
        self._seen_by_belief = context.valid & ~context.is_for_actions  # (T B, C)
        self._past = self._split_past(output.keys_values)
        prepared = policy.head.prepare(recorded.actions, observation.action_mask, noise)
        self._inputs, self._targets = (torch.split(part, self._size) for part in (prepared.tokens, prepared.targets))
        embedded = policy.head.embed(recorded.actions, observation.action_mask)
        self._embedded = torch.split(embedded, self._size)

    def __call__(self, index: int, belief: Tensor | None) -> ChunkForward:  # belief (B, M, Dg) z_t
        """The rest of chunk ``index``."""
        chunk = self._chunks[index]
        states, following = self._finish(index, belief)
        prepared = PreparedChunk(tokens=self._inputs[index], targets=self._targets[index])
        errors = self._policy.head.errors(states, prepared, chunk.observation.action_mask)
        gen = mean_tokens(torch.cat([self._gen[index], following], dim=1))
        return ChunkForward(
            action_losses=per_sample_mean(errors, chunk.recorded.action_is_pad, chunk.observation.action_mask),
            contexts=torch.cat([self._und[index], gen], dim=1),
            action_tokens=self._embedded[index],
            action_states=states,
            action_is_pad=chunk.recorded.action_is_pad,
        )

    def _finish(self, index: int, belief: Tensor | None) -> tuple[Tensor, Tensor]:  # (B, L, Dg), (B, M, Dg)
        """Hidden states on the action and belief positions."""
        trunk, inputs = self._policy.trunk, self._inputs[index]
        if belief is None:
            belief = inputs[:, :0]
        else:
            self._policy.check_belief(belief, self._size)
        num_belief = belief.shape[1]
        tokens = torch.cat([belief.to(inputs.dtype), inputs], dim=1)
        nothing = tokens.new_zeros((self._size, 0, trunk.config.context.width))
        output: TrunkOutput = trunk(nothing, tokens, self._layout(index, num_belief), self._past[index])
        return output.gen[:, num_belief:], output.gen[:, :num_belief]

    def _layout(self, index: int, num_belief: int) -> Layout:
        """Where belief and actions stand, which no belief changes: laid out for all chunks when the first is asked."""
        if num_belief not in self._layouts:
            valid, steps = self._valid, self._is_real_step
            believed = torch.ones((valid.shape[0], num_belief), dtype=torch.bool, device=valid.device)
            actions = action_mask(torch.cat([valid, believed], dim=1), steps, is_causal=self._policy.head.is_causal)
            mask = torch.cat([belief_mask(self._seen_by_belief, num_belief, steps.shape[1]), actions], dim=1)
            places = torch.arange(num_belief + steps.shape[1], device=valid.device)
            positions = valid.sum(dim=1, keepdim=True) + places
            self._layouts[num_belief] = self._policy.trunk.layout(positions, mask).split(self._size)
        return self._layouts[num_belief][index]

    def _split_past(self, keys_values: Sequence[KeysValues]) -> list[list[KeysValues]]:
        """The keys and values of each chunk, layer by layer."""
        split = [[torch.split(part, self._size) for part in pair] for pair in keys_values]
        return [[(keys[index], values[index]) for keys, values in split] for index in range(len(self._chunks))]


def mean_tokens(tokens: Tensor) -> Tensor:  # (N, n, D) -> (N, D)
    """The mean over tokens; zero where there are none, as without belief where the state is not pooled."""
    return tokens.mean(dim=1) if tokens.shape[1] else tokens.new_zeros(tokens.shape[0], tokens.shape[2])


def pool_und(context: Context, output: TrunkOutput) -> Tensor:  # (N, Du)
    """The mean over the real tokens of the context stream."""
    valid = context.valid[:, : context.und.shape[1]].unsqueeze(2)
    return output.und.masked_fill(~valid, 0).sum(dim=1) / valid.sum(dim=1)
