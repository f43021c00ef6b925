"""Factors on the weights of frames and episodes, from the files that ``ptr score`` writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptr_robot.errors import DataError, require

VERDICTS = ("keep", "flag", "drop")


@dataclass(frozen=True)
class FrameWeights:
    """A factor for each frame of a dataset, looked up by LeRobot's ``index``."""

    weights: Tensor  # (frames,) float32

    def __call__(self, index: Tensor) -> Tensor:  # (N,) int64 -> (N,)
        """The factors of these frames, on their device; frames past an episode's end may go past the last one."""
        rows = index.cpu().clamp(max=len(self.weights) - 1)
        return self.weights[rows].to(index.device)

    def times(self, other: FrameWeights) -> FrameWeights:
        """Both factors on every frame."""
        return FrameWeights(self.weights * other.weights)


def read_frame_weights(file: Path, num_frames: int, fallback: float | None) -> FrameWeights:
    """The columns ``index`` and ``weight`` of a parquet file; ``fallback`` stands for frames it does not name."""
    columns = _read(file, ("index", "weight"))
    index, values = _row_numbers(file, columns["index"], "index", num_frames, "frames"), _weights(file, columns)
    weights = np.full(num_frames, np.nan if fallback is None else fallback, dtype=np.float32)
    weights[index] = values
    if missing := int(np.isnan(weights).sum()):
        raise DataError(
            f"{file} has no weight for {missing} of the dataset's {num_frames} frames (the first is "
            f"{int(np.isnan(weights).argmax())}): is it the file of another dataset? If not, say what they weigh: "
            "--policy.ptr.fallback_weight=1"
        )
    return _checked(file, weights)


def read_verdicts(file: Path, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> FrameWeights:
    """The columns ``episode_index``, ``weight`` and ``verdict``: dropped episodes weigh nothing."""
    columns = _read(file, ("episode_index", "weight", "verdict"))
    count = len(starts)
    episodes = _row_numbers(file, columns["episode_index"], "episode_index", count, "episodes")
    verdicts, values = columns["verdict"], _weights(file, columns)
    for episode, verdict in zip(episodes, verdicts, strict=True):
        if verdict not in VERDICTS:
            raise DataError(f"{file}: episode {episode} is judged {verdict!r}; it must be one of {', '.join(VERDICTS)}")
    if absent := sorted(set(range(count)) - set(episodes.tolist())):
        raise DataError(f"{file} does not judge episode {absent[0]}; is it the file of another dataset?")
    weights = np.zeros(int((starts + lengths).max()), dtype=np.float32)
    for episode, verdict, value in zip(episodes, verdicts, values, strict=True):
        start = starts[episode]
        weights[start : start + lengths[episode]] = 0.0 if verdict == "drop" else value
    return _checked(file, weights)


def _read(file: Path, names: tuple[str, ...]) -> dict[str, NDArray[np.generic]]:
    parquet = require("pyarrow.parquet", "lerobot")
    try:
        present = parquet.read_schema(file).names
        if absent := [name for name in names if name not in present]:
            raise DataError(f"{file} has no column {absent[0]!r}; it has: {', '.join(present)}")
        table = parquet.read_table(file, columns=list(names))
    except DataError:
        raise
    except Exception as error:  # whatever pyarrow says of a file that is not there or no parquet
        raise DataError(f"{file}: not a readable parquet file ({error})") from error
    return {name: table.column(name).to_numpy() for name in names}


def _row_numbers(file: Path, values: NDArray[np.generic], name: str, count: int, things: str) -> NDArray[np.int64]:
    if values.dtype.kind not in "iu":
        raise DataError(f"{file}: the column {name!r} holds {values.dtype}, not whole numbers")
    numbers = values.astype(np.int64)
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < count):
        raise DataError(
            f"{file}: {name} runs from {numbers.min()} to {numbers.max()}, and the dataset has {count} {things}; "
            "it is the file of another dataset"
        )
    if len(np.unique(numbers)) != len(numbers):
        raise DataError(f"{file}: the column {name!r} repeats a number")
    return numbers


def _weights(file: Path, columns: dict[str, NDArray[np.generic]]) -> NDArray[np.float32]:
    values = columns["weight"]
    if values.dtype.kind not in "iuf":
        raise DataError(f"{file}: the column 'weight' holds {values.dtype}, not numbers")
    weights = values.astype(np.float32)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise DataError(f"{file}: the column 'weight' holds a negative, missing or infinite value")
    return weights


def _checked(file: Path, weights: NDArray[np.float32]) -> FrameWeights:
    if not (weights > 0).any():
        raise DataError(f"{file}: every frame weighs nothing; there would be nothing to learn from")
    return FrameWeights(torch.from_numpy(weights))
