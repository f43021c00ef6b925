"""Decodes some frames of an episode without decoding all of them.

LeRobot's videos have a key frame every second frame, so that a seek costs two decodings; other videos may have one at
their start alone, where going on decoding is cheaper than seeking back. Which it is shows when a seek is made.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import EpisodeRecord, Feature, VideoSpan
from ptr_robot.data.lerobot.frames import REMEDY, decode_episode
from ptr_robot.data.lerobot.videos import open_video
from ptr_robot.errors import DataError, require

NEAR = 8  # frames ahead that are decoded rather than sought


def decode_frames(
    episode: EpisodeRecord, feature: Feature, fps: float, frames: Sequence[int]
) -> Iterator[NDArray[np.uint8]]:
    """The pictures (H, W, 3) of some frames of an episode, which are given in ascending order."""
    if any(later <= earlier for earlier, later in itertools.pairwise(frames)):
        raise ValueError(f"frames must ascend; they are {list(frames)[:8]}")
    if feature.dtype == "video":
        yield from _seek_frames(episode, feature.key, fps, frames)
        return
    wanted = set(frames)
    for number, picture in enumerate(decode_episode(episode, feature, fps)):
        if number in wanted:
            yield picture


def _seek_frames(episode: EpisodeRecord, key: str, fps: float, frames: Sequence[int]) -> Iterator[NDArray[np.uint8]]:
    av = require("av", "lerobot")
    span = episode.videos[key]
    where = f"{span.path}: episode {episode.episode_index}"
    try:
        with open_video(span.path) as container:
            reader = _Reader(container, span, fps)
            for number in frames:
                frame = reader.read(number)
                if frame is None:
                    raise DataError(f"{where}: the video has no frame {number}; {REMEDY}")
                yield frame.to_ndarray(format="rgb24")
    except av.FFmpegError as error:
        raise DataError(f"{where}: the file is damaged and cannot be decoded ({error}); {REMEDY}") from error


class _Reader:
    """A place in a video, which moves forward by decoding or by seeking."""

    def __init__(self, container: Any, span: VideoSpan, fps: float) -> None:
        self._container, self._span, self._fps = container, span, fps
        self._stream = container.streams.video[0]
        self._stream.codec_context.thread_count = 1  # see frames.py
        self._decoded: Iterator[Any] | None = None
        self._last = -1  # the number of the frame that was decoded last
        self._far = NEAR

    def read(self, number: int) -> Any:
        """The frame of that number, or None where the video lacks it."""
        if self._decoded is None or number - self._last > self._far:
            self._seek(number)
        assert self._decoded is not None
        for frame in self._decoded:
            found = round((float(frame.pts * frame.time_base) - self._span.from_timestamp) * self._fps)
            if found <= self._last < number and number - found > self._far:
                self._far = number - found  # the key frame lies behind the last place: seek no shorter way again
            self._last = max(found, 0)
            if found == number:
                return frame
            if found > number:
                return None
        return None

    def _seek(self, number: int) -> None:
        seconds = self._span.from_timestamp + number / self._fps
        self._container.seek(int(seconds / self._stream.time_base), stream=self._stream)
        self._decoded = iter(self._container.decode(self._stream))
