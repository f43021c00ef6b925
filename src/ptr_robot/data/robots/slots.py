"""The named slots of the unified 200-D space, and the map from a robot's own dimensions into them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ptr_robot.errors import ConfigError, did_you_mean

UNIFIED_DIM = 200

# Half-open ranges; state and action share one layout. What is not named is reserved. The mobile base has one
# range with two readings: a pose (base_position, base_rotation) and a command (base_motion, control_mode).
# Rotations are axis times angle; quaternions have places of their own in what Being-H0.5 reserves.
SLOTS: dict[str, tuple[int, int]] = {
    "right_eef_position": (0, 3),
    "right_eef_rotation": (3, 6),
    "left_eef_position": (9, 12),
    "left_eef_rotation": (12, 15),
    "right_gripper": (18, 19),
    "left_gripper": (19, 20),
    "right_hand": (20, 26),
    "left_hand": (32, 38),
    "gripper_joints": (44, 46),
    "right_eef_quaternion": (46, 50),
    "right_arm_joints": (50, 57),
    "left_arm_joints": (57, 64),
    "head": (64, 66),
    "waist": (66, 69),
    "base_position": (70, 73),
    "base_rotation": (73, 76),
    "base_motion": (70, 74),
    "control_mode": (74, 75),
    "base_quaternion": (76, 80),
    "right_mano_beta": (90, 100),
    "left_mano_beta": (100, 110),
    "right_mano_theta": (110, 155),
    "left_mano_theta": (155, 200),
}
IGNORED = "ignored"
NO_NORMALISER, IDENTITY = "none", "identity"


@dataclass(frozen=True)
class SlotEntry:
    """The next ``size`` dimensions of the robot's vector, and the slot they fill from its first place on."""

    slot: str
    size: int
    normaliser: str | None = None  # overrides the source's own for these dimensions

    def __post_init__(self) -> None:
        if self.slot != IGNORED and self.slot not in SLOTS:
            raise ConfigError(f"there is no slot {self.slot!r}; {did_you_mean(self.slot, [*SLOTS, IGNORED])}")
        if self.size < 1:
            raise ConfigError(f"slot {self.slot!r} has size {self.size}; the size must be at least 1")
        if self.slot != IGNORED and self.size > self.capacity:
            first, end = SLOTS[self.slot]
            raise ConfigError(
                f"slot {self.slot!r} is given {self.size} dimensions and holds {self.capacity} ({first} to {end})"
            )

    @property
    def capacity(self) -> int:
        """How many dimensions the slot holds."""
        first, end = SLOTS[self.slot]
        return end - first


@dataclass(frozen=True)
class SlotMap:
    """Where each dimension of a robot's state (or action) lies in the unified space."""

    entries: tuple[SlotEntry, ...]

    def __post_init__(self) -> None:
        taken: dict[int, str] = {}
        for entry, places in zip(self.entries, self._entry_places(), strict=True):
            for place in places:
                if place >= 0 and place in taken:
                    raise ConfigError(f"slots {taken[place]!r} and {entry.slot!r} both fill dimension {place}")
                taken[place] = entry.slot

    def _entry_places(self) -> list[list[int]]:
        return [
            [-1] * entry.size
            if entry.slot == IGNORED
            else list(range(SLOTS[entry.slot][0], SLOTS[entry.slot][0] + entry.size))
            for entry in self.entries
        ]

    @property
    def size(self) -> int:
        """The length of the robot's own vector."""
        return sum(entry.size for entry in self.entries)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The unified dimension of each of the robot's own; -1 where one is ignored."""
        places = np.array([place for places in self._entry_places() for place in places], dtype=np.int64)  # (D,)
        places.setflags(write=False)
        return places

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Which unified dimensions the robot fills."""
        mask = np.zeros(UNIFIED_DIM, dtype=np.bool_)  # (200,)
        mask[self.places[self.places >= 0]] = True
        return mask

    def normalisers(self, default: str) -> list[str]:
        """The kind of normaliser of each of the robot's own dimensions; ``none`` goes over the robot's own kinds."""
        if default == NO_NORMALISER:
            return [IDENTITY] * self.size
        return [entry.normaliser or default for entry in self.entries for _ in range(entry.size)]

    def check_size(self, what: str, size: int) -> None:
        """Refuse a vector of another length than the map's."""
        if size != self.size:
            parts = " + ".join(f"{entry.size} {entry.slot}" for entry in self.entries)
            raise ConfigError(f"{what} has {size} dimensions and the robot's map {self.size} ({parts})")

    def to_unified(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """Robot vectors (..., D) as unified ones (..., 200), zero where the robot has nothing."""
        unified = np.zeros((*values.shape[:-1], UNIFIED_DIM), dtype=np.float32)
        kept = self.places >= 0
        unified[..., self.places[kept]] = values[..., kept]
        return unified

    def from_unified(self, unified: NDArray[np.floating]) -> NDArray[np.float32]:
        """Unified vectors (..., 200) as robot ones (..., D); ignored dimensions come back as zero."""
        values = np.zeros((*unified.shape[:-1], self.size), dtype=np.float32)
        kept = self.places >= 0
        values[..., kept] = unified[..., self.places[kept]]
        return values
