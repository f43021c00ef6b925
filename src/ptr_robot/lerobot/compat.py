"""How policies and samplers of LeRobot 0.4 and 0.6 differ; ``ptr_robot.data.lerobot.compat`` has where files moved."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ptr_robot.data.lerobot.compat import is_lerobot06


def divides_by_valid_steps() -> bool:
    """Whether LeRobot's own losses are means over real steps (0.6), or over padded ones too (0.4)."""
    return is_lerobot06()


def counts_padded_action_dims() -> bool:
    """Whether SmolVLA's loss averages over the dimensions it pads actions with (0.4)."""
    return not is_lerobot06()


def mend_episode_sampler() -> None:
    """Let ``--dataset.episodes`` work with policies that drop an episode's last frames on LeRobot 0.4.

    Its ``EpisodeAwareSampler`` hands out frame numbers of the whole dataset, while a dataset of chosen episodes counts
    its own frames from 0, so training ends in an IndexError. 0.6 translates the numbers itself.
    """
    if is_lerobot06():
        return
    import lerobot.scripts.lerobot_train as script

    if issubclass(script.EpisodeAwareSampler, _RelativeIndices):
        return

    class EpisodeAwareSampler(_RelativeIndices, script.EpisodeAwareSampler):  # type: ignore[misc]
        """LeRobot's sampler, with frame numbers of the chosen episodes."""

    script.EpisodeAwareSampler = EpisodeAwareSampler
    logging.info("LeRobot 0.4's EpisodeAwareSampler counts frames of the whole dataset; mended for --dataset.episodes")


class _RelativeIndices:
    """Translates the sampler's frame numbers into positions among the frames of the chosen episodes."""

    def __init__(
        self,
        dataset_from_indices: Sequence[int],
        dataset_to_indices: Sequence[int],
        episode_indices_to_use: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(dataset_from_indices, dataset_to_indices, episode_indices_to_use, **options)  # type: ignore[call-arg]
        if episode_indices_to_use is None:
            return
        chosen = set(episode_indices_to_use)
        spans = enumerate(zip(dataset_from_indices, dataset_to_indices, strict=True))
        frames = (frame for episode, span in spans if episode in chosen for frame in range(*span))
        positions = {frame: position for position, frame in enumerate(frames)}
        self.indices = [positions[frame] for frame in self.indices]  # type: ignore[has-type]
