"""Which robot a policy was trained for: the slots it measures and acts with, kept beside the weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ptr_robot.errors import ConfigError


@dataclass(frozen=True)
class RobotRecord:
    """One robot, or one source of demonstrations, in the unified space."""

    name: str
    state_slots: tuple[int, ...]  # indices into the 200
    action_slots: tuple[int, ...]


def check_robot(trained: Iterable[RobotRecord], wanted: RobotRecord, place: str) -> None:
    """Raise unless the policy at ``place`` was trained with the slots that ``wanted`` has."""
    records = list(trained)
    if any(_same_slots(record, wanted) for record in records):
        return
    closest = next((record for record in records if record.name == wanted.name), records[0] if records else None)
    if closest is None:
        raise ConfigError(f"{place} does not say which robot it was trained for; train it again or save it with one")
    for kind in ("action_slots", "state_slots"):
        theirs, ours = getattr(closest, kind), getattr(wanted, kind)
        if theirs != ours:
            raise ConfigError(
                f"{place} was trained for the robot {closest.name!r} with {kind} {_short(theirs)}; {wanted.name!r} has "
                f"{_short(ours)}: use a policy of the same robot"
            )


def _same_slots(first: RobotRecord, second: RobotRecord) -> bool:
    return (first.state_slots, first.action_slots) == (second.state_slots, second.action_slots)


def _short(slots: Sequence[int]) -> str:
    """Slots as ranges: ``0-3, 18``."""
    ranges: list[list[int]] = []
    for slot in slots:
        if ranges and slot == ranges[-1][1] + 1:
            ranges[-1][1] = slot
        else:
            ranges.append([slot, slot])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges) or "none"
