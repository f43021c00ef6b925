"""Frames of episodes as small pictures inside the page: one sprite sheet an episode, and one thumbnail."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.lerobot.contents import EpisodeRecord, Feature
from ptr_robot.data.lerobot.seeking import decode_frames
from ptr_robot.errors import require

COLUMNS = 6  # frames in a row of a sprite sheet
QUALITY = 55  # of WebP


@dataclass(frozen=True)
class Filmstrip:
    """The frames of one episode that the page shows."""

    frames: tuple[int, ...]  # frame indices, ascending
    sprite: str  # a data URI: the frames row by row, COLUMNS a row
    thumbnail: str  # a data URI
    width: int  # pixels of one frame in the sprite
    height: int


def make_filmstrip(
    episode: EpisodeRecord, feature: Feature, fps: float, frames: Sequence[int], *, width: int
) -> Filmstrip:
    """Decode the chosen frames once and paste them into one picture; without any, a thumbnail alone."""
    pillow = require("PIL.Image", "lerobot")
    wanted = frames or [episode.length // 2]
    pictures = [shrink(pillow, frame, width) for frame in decode_frames(episode, feature, fps, wanted)]
    height = pictures[0].height
    rows, columns = math.ceil(len(pictures) / COLUMNS), min(COLUMNS, len(pictures))
    sheet = pillow.new("RGB", (columns * width, rows * height))
    for place, picture in enumerate(pictures):
        sheet.paste(picture, (place % COLUMNS * width, place // COLUMNS * height))
    middle = pictures[len(pictures) // 2]
    small = middle.resize((max(1, width * 3 // 4), max(1, height * 3 // 4)))
    return Filmstrip(tuple(frames), data_uri(sheet) if frames else "", data_uri(small), width, height)


def shrink(pillow: Any, frame: NDArray[np.uint8], width: int) -> Any:  # (H, W, 3)
    """The frame as a picture of that width, in its own proportions."""
    picture = pillow.fromarray(frame)
    height = max(1, round(picture.height * width / picture.width))
    return picture.resize((width, height), pillow.Resampling.BILINEAR, reducing_gap=2.0)


def data_uri(picture: Any) -> str:
    """The picture as text that an ``img`` element takes."""
    file = io.BytesIO()
    picture.save(file, format="WEBP", quality=QUALITY, method=2)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()


def chunk_starts(length: int, chunk_length: int, at_most: int) -> list[int]:
    """Frames at chunk starts and the last one, thinned evenly to ``at_most``."""
    starts = [*range(0, length, chunk_length)]
    if starts[-1] != length - 1:
        starts.append(length - 1)
    if len(starts) <= at_most:
        return starts
    places = np.linspace(0, len(starts) - 1, at_most).round().astype(int)
    return [starts[place] for place in sorted(set(places.tolist()))]
