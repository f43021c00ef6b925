"""Normalisers in inverse pairs, one kind for each dimension, from statistics of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot.errors import ConfigError, did_you_mean

KINDS = ("q99", "mean_std", "min_max", "binary", "identity")
# A range below this share of the values' magnitude is rounding, not motion.
CONSTANT_TOLERANCE = 1e-6
# And so is one below this in whatever unit.
SMALLEST_RANGE = 1e-8
# Percentiles nearer to each other than this share of the whole range are those of a dimension that rests; scaled by
# them, its rare motion would be tens of times larger than that of any other dimension.
RESTING_SHARE = 0.05


@dataclass(frozen=True)
class VectorStatistics:
    """Statistics of one vector feature over the frames of a source; each array has one value a dimension."""

    count: int
    minimum: NDArray[np.float64]  # (D,)
    maximum: NDArray[np.float64]  # (D,)
    mean: NDArray[np.float64]  # (D,)
    std: NDArray[np.float64]  # (D,)
    q01: NDArray[np.float64]  # (D,)
    q99: NDArray[np.float64]  # (D,)

    @property
    def is_constant(self) -> NDArray[np.bool_]:
        """The dimensions that never move."""
        magnitude = np.maximum(np.abs(self.minimum), np.abs(self.maximum))
        rounding = np.maximum(CONSTANT_TOLERANCE * magnitude, SMALLEST_RANGE)
        constant: NDArray[np.bool_] = self.maximum - self.minimum <= rounding  # (D,)
        return constant

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(self).items()}

    @staticmethod
    def from_dict(record: dict[str, Any]) -> VectorStatistics:
        """The inverse of ``to_dict``."""
        arrays = {k: np.asarray(v, dtype=np.float64) for k, v in record.items() if k != "count"}
        return VectorStatistics(count=int(record["count"]), **arrays)


@dataclass(frozen=True)
class Normaliser:
    """``(x - offset) / scale`` and its inverse; nothing is clipped, so nothing is lost.

    A dimension that never moves has scale 0: it maps to 0 and comes back as its constant. A binary dimension is
    snapped to -1 or 1 and comes back as the lower or the upper of its two values.
    """

    offset: NDArray[np.float64]  # (D,)
    scale: NDArray[np.float64]  # (D,)
    is_binary: NDArray[np.bool_]  # (D,)

    def normalise(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """Robot units to the policy's."""
        inverse = np.divide(1.0, self.scale, out=np.zeros_like(self.scale), where=self.scale != 0)
        return self._snap((values.astype(np.float64) - self.offset) * inverse).astype(np.float32)

    def denormalise(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """The policy's units to the robot's."""
        restored: NDArray[np.float64] = self._snap(values.astype(np.float64)) * self.scale + self.offset
        return restored.astype(np.float32)

    def _snap(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        moving = self.is_binary & (self.scale != 0)
        return np.where(moving, np.where(values < 0, -1.0, 1.0), values)


def make_normaliser(statistics: VectorStatistics, kinds: Sequence[str]) -> Normaliser:
    """A normaliser with one kind for each dimension."""
    offset: NDArray[np.float64] = np.zeros(len(kinds))
    scale = np.ones(len(kinds))
    for dimension, kind in enumerate(kinds):
        if kind not in KINDS:
            raise ConfigError(f"there is no normaliser {kind!r}; {did_you_mean(kind, KINDS)}")
        offset[dimension], scale[dimension] = _offset_and_scale(statistics, kind, dimension)
    constant = statistics.is_constant & (np.array(kinds) != "identity")
    offset = np.where(constant, statistics.minimum, offset)
    return Normaliser(offset, np.where(constant, 0.0, scale), np.array([kind == "binary" for kind in kinds]))


def _offset_and_scale(statistics: VectorStatistics, kind: str, dimension: int) -> tuple[float, float]:
    """Two ends of a range map to -1 and 1; where the 1st and 99th percentile nearly coincide, the extremes do."""
    if kind == "identity":
        return 0.0, 1.0
    if kind == "mean_std":
        return float(statistics.mean[dimension]), float(statistics.std[dimension])
    low, high = float(statistics.minimum[dimension]), float(statistics.maximum[dimension])
    quantiles = float(statistics.q01[dimension]), float(statistics.q99[dimension])
    if kind == "q99" and quantiles[1] - quantiles[0] >= RESTING_SHARE * (high - low):
        low, high = quantiles
    return (low + high) / 2, (high - low) / 2
