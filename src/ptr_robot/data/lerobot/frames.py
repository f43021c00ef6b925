"""Decodes the pictures of an episode in order, and resizes them the one way that training and rollouts share."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptr_robot.data.lerobot.contents import EpisodeRecord, Feature, VideoSpan
from ptr_robot.data.lerobot.tables import iterate_cells
from ptr_robot.data.lerobot.videos import open_video
from ptr_robot.errors import ConfigError, DataError, did_you_mean, require

# A broken video is an error with a line of its own; the decoder's many lines before it say no more.
logging.getLogger("libav").setLevel(logging.CRITICAL)

REMEDY = "fetch or record it again"
RESIZE_MODES = ("pad", "stretch", "crop", "bicubic_crop")


def resize_frame(frame: NDArray[np.uint8], size: int, mode: str = "pad") -> NDArray[np.uint8]:
    """A picture (H, W, 3) as (3, size, size), by antialiased bilinear interpolation on bytes.

    ``pad`` keeps the whole view and its proportions with black bars, ``stretch`` keeps the whole view,
    ``crop`` keeps the proportions and the centre; ``bicubic_crop`` does so as Pillow and torchvision do.
    """
    if mode not in RESIZE_MODES:
        raise ConfigError(f"there is no resize mode {mode!r}; {did_you_mean(mode, RESIZE_MODES)}")
    if mode == "bicubic_crop":
        return _bicubic_crop(frame, size)
    height, width = frame.shape[:2]
    if mode == "crop":
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        frame = frame[top : top + side, left : left + side]
        height = width = side
    longest = max(height, width) if mode == "pad" else None
    new_height = size if longest is None else max(1, round(size * height / longest))
    new_width = size if longest is None else max(1, round(size * width / longest))
    writable = np.require(frame, requirements=["C", "W"])  # torch takes no read-only memory
    resized = _interpolate(torch.from_numpy(writable), new_height, new_width)
    if (new_height, new_width) == (size, size):
        return resized.numpy()
    canvas = np.zeros((3, size, size), dtype=np.uint8)
    top, left = (size - new_height) // 2, (size - new_width) // 2
    canvas[:, top : top + new_height, left : left + new_width] = resized.numpy()
    return canvas


def _bicubic_crop(frame: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:  # (H, W, 3) -> (3, size, size)
    """The shorter side to ``size`` by Pillow's bicubic filter, whose rounding torch's differs from, then the centre."""
    pillow = require("PIL.Image", "lerobot")
    height, width = frame.shape[:2]
    shorter = min(height, width)
    new_height, new_width = size * height // shorter, size * width // shorter
    picture = pillow.fromarray(np.ascontiguousarray(frame)).resize((new_width, new_height), pillow.Resampling.BICUBIC)
    top, left = round((new_height - size) / 2), round((new_width - size) / 2)
    cropped = np.asarray(picture)[top : top + size, left : left + size]
    return np.ascontiguousarray(cropped.transpose(2, 0, 1))


def _interpolate(frame: Tensor, height: int, width: int) -> Tensor:
    pixels = frame.permute(2, 0, 1).unsqueeze(0)  # (1, 3, H, W), channels last in memory: torch's fast path
    if pixels.shape[2:] != (height, width):
        pixels = torch.nn.functional.interpolate(pixels, (height, width), mode="bilinear", antialias=True)
    return pixels[0].contiguous()  # (3, height, width)


def decode_episode(episode: EpisodeRecord, feature: Feature, fps: float) -> Iterator[NDArray[np.uint8]]:
    """Every picture of an episode in order, each (H, W, 3); one sequential pass, no seeking back."""
    if feature.dtype == "video":
        yield from _decode_video(episode, feature.key, fps)
    else:
        yield from _decode_images(episode, feature.key)


def _decode_video(episode: EpisodeRecord, key: str, fps: float) -> Iterator[NDArray[np.uint8]]:
    """Frames are separated by their time stamps, so a file that joins episodes gives each its own."""
    av = require("av", "lerobot")
    span = episode.videos[key]
    where = f"{span.path}: episode {episode.episode_index}"
    expected = 0
    try:
        with open_video(span.path) as container:
            for frame in _frames_from(container, span):
                number = round((float(frame.pts * frame.time_base) - span.from_timestamp) * fps)
                if number < 0:
                    continue
                if number != expected:
                    raise DataError(
                        f"{where}: the file is damaged, after frame {expected - 1} comes frame {number}; {REMEDY}"
                    )
                yield frame.to_ndarray(format="rgb24")
                expected += 1
                if expected == episode.length:
                    return
    except av.FFmpegError as error:
        raise DataError(
            f"{where}: the file is damaged, frame {expected} cannot be decoded ({error}); {REMEDY}"
        ) from error
    raise DataError(f"{where}: the video ends after frame {expected - 1}, the table has {episode.length} rows")


def _frames_from(container: Any, span: VideoSpan) -> Iterator[Any]:
    """One thread: a decoder with threads of its own can hang when it is closed before the end (PyAV issue 909).

    Several videos are decoded at once by the loader's workers.
    """
    stream = container.streams.video[0]
    stream.codec_context.thread_count = 1
    if span.from_timestamp > 0:
        container.seek(int(span.from_timestamp / stream.time_base), stream=stream)
    return iter(container.decode(stream))


def _decode_images(episode: EpisodeRecord, key: str) -> Iterator[NDArray[np.uint8]]:
    """Pictures that are stored in the table itself, as encoded bytes."""
    pillow = require("PIL.Image", "lerobot")
    where = f"{episode.table}: episode {episode.episode_index}, {key!r}"
    for frame_index, cell in enumerate(iterate_cells(episode, key)):
        yield _decode_image(pillow, cell, f"{where}, frame {frame_index}")


def _decode_image(pillow: ModuleType, cell: Any, where: str) -> NDArray[np.uint8]:
    try:
        with pillow.open(io.BytesIO(cell["bytes"])) as image:
            return np.array(image.convert("RGB"))
    except (OSError, TypeError, KeyError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        # Pillow calls a broken PNG a SyntaxError.
        raise DataError(f"{where}: not a readable picture ({error})") from error
