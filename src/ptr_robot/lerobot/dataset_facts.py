"""What a policy must know of the dataset it is trained on, and whether the two fit."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.errors import ConfigError
from ptr_robot.lerobot.frame_weights import FrameWeights, read_frame_weights, read_verdicts
from ptr_robot.lerobot.settings import PTRSettings

SHORT_SECONDS = 0.1


@dataclass(frozen=True)
class DatasetFacts:
    """Lengths of the episodes, and how fast they were recorded."""

    fps: float
    num_frames: int
    starts: NDArray[np.int64]  # (episodes,)
    lengths: NDArray[np.int64]  # (episodes,)

    @property
    def num_episodes(self) -> int:
        """Episodes of the whole dataset, chosen or not."""
        return len(self.lengths)

    @staticmethod
    def of(meta: Any) -> DatasetFacts:
        """Read LeRobot's metadata."""
        starts = np.asarray(meta.episodes["dataset_from_index"], dtype=np.int64)
        ends = np.asarray(meta.episodes["dataset_to_index"], dtype=np.int64)
        return DatasetFacts(float(meta.fps), int(meta.total_frames), starts, ends - starts)


def check_consequences(facts: DatasetFacts, offset_steps: int) -> None:
    """Whether Δ frames are a time in which something happens, and leave enough frames with a consequence."""
    seconds, longest = offset_steps / facts.fps, int(facts.lengths.max())
    if offset_steps >= longest:
        raise ConfigError(
            f"policy.ptr.offset_steps is {offset_steps} ({seconds:.1f} s at {facts.fps:g} fps), and the longest "
            f"episode has {longest} frames: no action would have a consequence; set it below"
        )
    if seconds < SHORT_SECONDS:
        logging.warning(
            f"PTR: a consequence after {offset_steps} frames is {seconds:.2f} s at {facts.fps:g} fps, in which little "
            "can be seen to change; consider a larger policy.ptr.offset_steps"
        )
    share = float(np.maximum(facts.lengths - offset_steps, 0).sum() / facts.num_frames)
    if share < 0.5:
        logging.warning(
            f"PTR: only {share:.0%} of the frames have a consequence {offset_steps} frames ({seconds:.1f} s) later; "
            "the others keep the weight 1. Consider a smaller policy.ptr.offset_steps"
        )


def frame_weights(settings: PTRSettings, facts: DatasetFacts) -> FrameWeights | None:
    """The factors of the files that the user named."""
    weights = None
    if settings.prior_weights is not None:
        weights = read_frame_weights(Path(settings.prior_weights), facts.num_frames, settings.fallback_weight)
    if settings.verdicts is not None:
        judged = read_verdicts(Path(settings.verdicts), facts.starts, facts.lengths)
        weights = judged if weights is None else weights.times(judged)
    return weights
