"""The ground truth of an edit: what was done to the episode, added to what was known about it before."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ptr_robot.data.corruptions.plan import EpisodeEdit, PlannedEpisode
from ptr_robot.data.ground_truth import EpisodeTruth, Fault

ACTION_NOISE = "action_noise"
TRUNCATION = "truncation"
LABEL_NOISE = "label_noise"


def episode_truth(episode: PlannedEpisode, edit: EpisodeEdit, previous: EpisodeTruth | None) -> EpisodeTruth:
    """The truth about ``episode``, given as it was, after ``edit``; earlier faults are cut to fit."""
    truth = previous or EpisodeTruth(episode.index)
    length = edit.kept_frames or episode.length
    earlier = tuple(
        dataclasses.replace(fault, last_frame=min(fault.last_frame, length - 1))
        for fault in truth.faults
        if fault.first_frame < length
    )
    # Whether a demonstration that was cut off still reaches its goal is not known.
    is_success = None if edit.kept_frames is not None else truth.is_success
    faults = (*earlier, *_faults(episode, edit, length))
    return dataclasses.replace(truth, faults=faults, is_success=is_success)


def _faults(episode: PlannedEpisode, edit: EpisodeEdit, length: int) -> Iterator[Fault]:
    last = length - 1
    if edit.noise is not None:
        yield Fault(ACTION_NOISE, 0, last, {"sigma": edit.noise.sigma, "unit": edit.noise.unit})
    if edit.kept_frames is not None:
        # The frames that stay are sound; what is wrong is that nothing follows the last one.
        details = {"original_length": episode.length, "kept_fraction": length / episode.length}
        yield Fault(TRUNCATION, last, last, details)
    if edit.instruction is not None:
        yield Fault(LABEL_NOISE, 0, last, {"instruction": edit.instruction, "original": list(episode.instructions)})
