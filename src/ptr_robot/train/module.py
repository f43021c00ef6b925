"""Policy and PTR as one module: a batch of segments in, the loss of Algorithm 1 out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.method.hashing import hash_integers
from ptr_robot.method.ptr.algorithm import PTR
from ptr_robot.method.types import PTROutput, Samples
from ptr_robot.policy.interface import Policy, TrainingChunk
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation
from ptr_robot.train.samples import SampleFacts, make_samples, take_frames


class TrainingModule(nn.Module):
    """What DDP wraps: one forward call a micro-batch, whatever the policy does inside."""

    def __init__(self, policy: Policy, ptr: PTR, facts: SampleFacts | None = None) -> None:
        super().__init__()
        self.policy = policy
        self.ptr = ptr
        self.facts = facts

    def forward(self, batch: SegmentBatch, key: int) -> tuple[PTROutput, Samples]:
        """The loss of ``B`` segments; noise depends on ``key`` and on the chunk, wherever it is in the batch.

        The belief recursion goes chunk by chunk, in as far as the policy looks at the belief; without it the chunks of
        a segment do not know of each other, and all of them go through the policy at once.
        """
        samples = make_samples(self.ptr, batch, self.facts)
        keys = hash_integers(key, batch.sample_id)  # (B, T)
        if self.ptr.belief is None:
            chunk = self.policy.forward_chunk(*all_chunks(batch), noise=Noise(keys.flatten()))
            return self.ptr(chunk, samples), samples

        chunks = [
            TrainingChunk(Observation.at_chunk(batch, index), ActionChunk.at_chunk(batch, index), Noise(keys[:, index]))
            for index in range(batch.num_chunks)
        ]
        return self.ptr.segment(self.policy.forward_segments(chunks), samples, num_chunks=len(chunks)), samples

    @torch.no_grad()
    def update(self) -> None:
        """After the optimiser's step: what of PTR moves by itself."""
        self.ptr.update(self.policy.vision_tower if self.ptr.target_encoder is not None else None)


def all_chunks(batch: SegmentBatch) -> tuple[Observation, ActionChunk]:
    """Every chunk of every segment, flat in (B, T) order."""
    num_chunks = batch.num_chunks

    def repeat(values: Tensor) -> Tensor:  # (B, ...) -> (B T, ...)
        return values.repeat_interleave(num_chunks, dim=0)

    observation = Observation(
        images=take_frames(batch.frames, batch.current_frame).flatten(0, 1),
        view_mask=repeat(batch.view_mask),
        states=batch.states.flatten(0, 1),
        state_mask=repeat(batch.state_mask),
        action_mask=repeat(batch.action_mask),
        instructions=tuple(text for text in batch.instructions for _ in range(num_chunks)),
    )
    actions = ActionChunk(actions=batch.actions.flatten(0, 1), action_is_pad=batch.action_is_pad.flatten(0, 1))
    return observation, actions
