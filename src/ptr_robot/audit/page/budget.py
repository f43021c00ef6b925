"""Who gets how many pictures: a page of a stated size shows most of what somebody will look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FRAME_BYTES = 2400  # about what one frame of FRAME_WIDTH takes in a sprite sheet
FRAME_WIDTH = 128  # pixels
MAX_FRAMES = 18  # of one episode
MAX_CHUNKS = 3  # of one suspected episode that are compared with a kept one
PICTURES_A_CHUNK = 4
_THUMBNAIL = 0.6  # of a frame's bytes
_LEVELS = ((MAX_FRAMES, MAX_CHUNKS), (MAX_FRAMES, 1), (12, 1), (6, 1), (6, 0), (3, 0), (2, 0))  # frames, chunks
_FEWEST = 2  # frames of an episode that are worth a film


@dataclass(frozen=True)
class PictureBudget:
    """Pictures by episode index."""

    frames: Mapping[int, int]  # in the film of an episode; 0: none
    thumbnails: frozenset[int]
    num_chunks: int  # of each suspected episode that are compared


def share_pictures(verdicts: Mapping[int, str], nearest: Mapping[int, int], max_megabytes: float) -> PictureBudget:
    """Thumbnails for all where half is enough, then films of suspects and of those beside them, then of the rest."""
    total = max_megabytes * 1e6 / FRAME_BYTES
    suspects = [number for number, verdict in verdicts.items() if verdict != "keep"]
    looked_at = {*suspects, *(nearest[number] for number in suspects if number in nearest)}
    others = [number for number in verdicts if number not in looked_at]
    thumbnails = frozenset(verdicts if _THUMBNAIL * len(verdicts) <= total / 2 else looked_at)
    total -= _THUMBNAIL * len(thumbnails)
    share = total * (0.75 if others else 1.0)
    many, num_chunks = next(
        (level for level in _LEVELS if _cost(level, len(looked_at), len(suspects)) <= share), (0, 0)
    )
    rest = total - _cost((many, num_chunks), len(looked_at), len(suspects))
    few = min(MAX_FRAMES, int(rest / max(1, len(others))))
    few = few if few >= _FEWEST else 0
    frames = {number: many if number in looked_at else few for number in verdicts}
    if _THUMBNAIL * len(thumbnails) > total:
        thumbnails = frozenset()
    return PictureBudget(frames, thumbnails, num_chunks)


def _cost(level: tuple[int, int], num_looked_at: int, num_suspects: int) -> int:
    frames, chunks = level
    return frames * num_looked_at + PICTURES_A_CHUNK * chunks * num_suspects
