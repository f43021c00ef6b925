"""What a policy is given at the start of a chunk, cut out of a batch of segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ptr_robot.data.segments.batch import UNIFIED_DIM, SegmentBatch
from ptr_robot.errors import ShapeError


@dataclass(frozen=True)
class Observation:
    """What the robot sees, feels and is told, and which slots of the unified space it has.

    Only the present is here: a future frame is a training target and has no field to travel in.
    """

    images: Tensor  # (N, V, 3, H, W) uint8; V = 0 for state-only data
    view_mask: Tensor  # (N, V) bool: False where a source lacks that view
    states: Tensor  # (N, 200) float32, normalised
    state_mask: Tensor  # (N, 200) bool: the slots this robot measures
    action_mask: Tensor  # (N, 200) bool: the slots this robot acts with
    instructions: tuple[str, ...]  # N of them

    def __post_init__(self) -> None:
        count = len(self.instructions)
        expected = {
            "view_mask": (count, self.images.shape[1]),
            "states": (count, UNIFIED_DIM),
            "state_mask": (count, UNIFIED_DIM),
            "action_mask": (count, UNIFIED_DIM),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ShapeError(
                    f"the observation's {name} has shape {tuple(getattr(self, name).shape)}; expected {shape} "
                    f"for {count} instructions and {self.images.shape[1]} views"
                )

    @property
    def batch_size(self) -> int:
        """N."""
        return self.states.shape[0]

    @staticmethod
    def join(observations: Sequence[Observation]) -> Observation:
        """One batch of them all, one after the other."""
        tensors = {
            name: torch.cat([getattr(observation, name) for observation in observations])
            for name in ("images", "view_mask", "states", "state_mask", "action_mask")
        }
        return Observation(**tensors, instructions=tuple(text for o in observations for text in o.instructions))

    @staticmethod
    def at_chunk(batch: SegmentBatch, index: int) -> Observation:
        """The present at chunk ``index`` of every segment."""
        rows = torch.arange(batch.batch_size, device=batch.frames.device)
        return Observation(
            images=batch.frames[rows, batch.current_frame[:, index]],
            view_mask=batch.view_mask,
            states=batch.states[:, index],
            state_mask=batch.state_mask,
            action_mask=batch.action_mask,
            instructions=batch.instructions,
        )


@dataclass(frozen=True)
class ActionChunk:
    """The recorded actions that a policy learns from."""

    actions: Tensor  # (N, L, 200) float32, normalised
    action_is_pad: Tensor = field(kw_only=True)  # (N, L) bool: True past the end of the episode

    @staticmethod
    def join(chunks: Sequence[ActionChunk]) -> ActionChunk:
        """One batch of them all, one after the other."""
        return ActionChunk(
            actions=torch.cat([chunk.actions for chunk in chunks]),
            action_is_pad=torch.cat([chunk.action_is_pad for chunk in chunks]),
        )

    @staticmethod
    def at_chunk(batch: SegmentBatch, index: int) -> ActionChunk:
        """The recorded chunk ``index`` of every segment."""
        return ActionChunk(actions=batch.actions[:, index], action_is_pad=batch.action_is_pad[:, index])
