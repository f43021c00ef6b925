"""The weakest chunks of a suspected episode, each beside the most similar situation of a kept one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ptr_robot.audit.page.budget import FRAME_WIDTH
from ptr_robot.audit.page.pictures import data_uri, shrink
from ptr_robot.data.lerobot.contents import EpisodeRecord, Feature
from ptr_robot.data.lerobot.seeking import decode_frames
from ptr_robot.errors import DataError, require

PHASE_REACH = 0.5  # the share of an episode's time that weighs as much as one deviation of the states
_FLOOR = 1e-3  # evidence below it is not weaker still


def weakest_chunks(
    evidence: Mapping[str, NDArray[np.float32]],  # by channel: (length,)
    *,
    chunk_length: int,
    threshold: float,
    at_most: int,
) -> list[int]:
    """First frames of chunks in which the channels together have least, the weakest first, two chunks apart."""
    if not evidence or not at_most:
        return []
    traces = np.nan_to_num(np.stack(list(evidence.values())), nan=1.0)  # (channels, length)
    length = traces.shape[1]
    size = min(chunk_length, length)
    sums = np.cumsum(np.log(np.clip(traces, _FLOOR, 1.0)).sum(axis=0))
    totals = np.diff(sums, prepend=0.0) if size == 1 else sums[size - 1 :] - np.concatenate([[0.0], sums[:-size]])
    is_weak = np.convolve(traces.min(axis=0) < threshold, np.ones(size), "valid") > 0
    totals = np.where(is_weak, totals, np.inf)[: max(1, length - chunk_length)]
    found: list[int] = []
    while len(found) < at_most and np.isfinite(totals.min()):
        first = int(totals.argmin())
        found.append(first)
        totals[max(0, first - 2 * size + 1) : first + 2 * size] = np.inf
    return found


def most_similar_frame(
    state: NDArray[np.floating],  # (D,)
    phase: float,  # its share of the episode's time
    others: NDArray[np.floating],  # (n, D)
    scale: NDArray[np.floating],  # (D,)
    *,
    offset: int,  # frames that must follow
) -> int:
    """The frame of another episode that is nearest in state; of equal ones, that at the same time of the task."""
    usable = others[: max(1, len(others) - offset)]
    phases = np.arange(len(usable)) / max(1, len(others) - 1)
    distances = np.nanmean(((usable - state) / scale) ** 2, axis=1) + ((phases - phase) / PHASE_REACH) ** 2
    return int(np.argmin(distances))


def picture_pairs(
    episode: EpisodeRecord, frame: int, other: EpisodeRecord, place: int, offset: int, feature: Feature, fps: float
) -> tuple[str, ...]:
    """Data URIs: now and its consequence, the other's now and its consequence; nothing where a video is damaged."""
    pillow = require("PIL.Image", "lerobot")
    pictures = []
    try:
        for record, first in ((episode, frame), (other, place)):
            wanted = sorted({first, min(first + offset, record.length - 1)})
            shown = [*decode_frames(record, feature, fps, wanted)]
            pictures += [data_uri(shrink(pillow, picture, FRAME_WIDTH)) for picture in (shown[0], shown[-1])]
    except DataError:
        return ()  # the note beside the frames says what is wrong with the video
    return tuple(pictures)
