"""What a trained policy must remember of its data: slots, normalisers and cameras of each source, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptr_robot.data.lerobot.contents import Feature
from ptr_robot.data.robots.normalisers import Normaliser
from ptr_robot.data.robots.slots import SlotEntry, SlotMap
from ptr_robot.data.segments.source import Source, UnifiedMap
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.policy.robot_record import RobotRecord
from ptr_robot.text_files import read_json

SOURCES_FILE = "sources.json"
# What a policy's inputs and outputs mean.
_MEANINGS = {
    "state": "the map of states",
    "action": "the map of actions",
    "cameras": "the order of cameras",
    "tasks": "the list of instructions",
}


@dataclass(frozen=True)
class SourceRecord:
    """One source of a run: enough to feed a policy from this robot, and to send its actions back."""

    name: str  # the dataset's repo_id
    robot: str
    fps: float
    state_map: UnifiedMap
    action_map: UnifiedMap
    cameras: tuple[str | None, ...]  # V: the feature key of each view, None where this source lacks it
    image_size: int  # 0: no images
    resize: str
    tasks: tuple[str, ...]
    state_key: str | None = None  # the feature that the state is; None in records of earlier versions
    camera_sizes: tuple[tuple[int, int] | None, ...] = ()  # (height, width) of each view as recorded, where known

    @staticmethod
    def of(source: Source, *, image_size: int, resize: str) -> SourceRecord:
        """The record of an open source."""
        return SourceRecord(
            name=source.config.repo_id,
            robot=source.robot.name,
            fps=float(source.index.fps),
            state_map=source.state_map,
            action_map=source.action_map,
            cameras=source.cameras,
            image_size=image_size,
            resize=resize,
            tasks=tuple(text for _, text in sorted(source.index.tasks.items())),
            state_key=source.config.state_key,
            camera_sizes=tuple(None if key is None else _size(source.index.feature(key)) for key in source.cameras),
        )

    @property
    def robot_record(self) -> RobotRecord:
        """The slots alone, as the policy's own file keeps them."""
        return RobotRecord(
            name=self.robot, state_slots=_slots(self.state_map.slots), action_slots=_slots(self.action_map.slots)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "robot": self.robot,
            "fps": self.fps,
            "state": _map_to_dict(self.state_map),
            "action": _map_to_dict(self.action_map),
            "cameras": list(self.cameras),
            "image_size": self.image_size,
            "resize": self.resize,
            "tasks": list(self.tasks),
            "state_key": self.state_key,
            "camera_sizes": [None if size is None else list(size) for size in self.camera_sizes],
        }

    @staticmethod
    def from_dict(record: dict[str, Any]) -> SourceRecord:
        """The inverse of ``to_dict``."""
        return SourceRecord(
            name=record["name"],
            robot=record["robot"],
            fps=float(record["fps"]),
            state_map=_map_from_dict(record["state"]),
            action_map=_map_from_dict(record["action"]),
            cameras=tuple(record["cameras"]),
            image_size=int(record["image_size"]),
            resize=record["resize"],
            tasks=tuple(record["tasks"]),
            state_key=record.get("state_key"),
            camera_sizes=tuple(size and (size[0], size[1]) for size in record.get("camera_sizes", ())),
        )


def write_sources(folder: Path, records: tuple[SourceRecord, ...]) -> None:
    """Write ``sources.json`` into a folder that is being filled."""
    values = [record.to_dict() for record in records]
    (folder / SOURCES_FILE).write_text(json.dumps(values, indent=2) + "\n")


def read_sources(folder: Path) -> tuple[SourceRecord, ...]:
    """Read ``sources.json`` back."""
    file = folder / SOURCES_FILE
    if not file.is_file():
        if (folder / "train_config.json").is_file() and (folder / "policy_preprocessor.json").is_file():
            raise DataError(f"{folder} is a policy of lerobot-train: lerobot-eval evaluates it, ptr serve serves it")
        raise DataError(f"{file}: no such file; give the pretrained_model folder of a checkpoint")
    content = read_json(file, "copy the checkpoint again")
    if not isinstance(content, list) or not content:
        raise DataError(f"{file} must hold the list of the run's sources; copy the checkpoint again")
    try:
        return tuple(SourceRecord.from_dict(record) for record in content)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise DataError(f"{file} cannot be read ({error}); copy the checkpoint again") from error


def check_same_sources(begun: Sequence[SourceRecord], now: Sequence[SourceRecord]) -> None:
    """Refuse to go on where the numbers of a resumed run would mean something else than those it has learnt from."""
    for old, new in zip(begun, now, strict=True):
        before, after = old.to_dict(), new.to_dict()
        for name, meaning in _MEANINGS.items():
            if before[name] != after[name]:
                raise ConfigError(
                    f"{new.name}: {meaning} was another one when the run began: the data differ, or the episodes "
                    "chosen of them; start another run"
                )


def _size(camera: Feature) -> tuple[int, int]:
    """Height and width; LeRobot stores the channels last, or first in older datasets."""
    height, width = camera.shape[1:] if camera.shape[0] in (1, 3) else camera.shape[:2]
    return height, width


def _slots(slots: SlotMap) -> tuple[int, ...]:
    return tuple(int(place) for place in np.flatnonzero(slots.mask))


def _map_to_dict(unified: UnifiedMap) -> dict[str, Any]:
    normaliser = unified.normaliser
    return {
        "slots": [asdict(entry) for entry in unified.slots.entries],
        "offset": normaliser.offset.tolist(),
        "scale": normaliser.scale.tolist(),
        "is_binary": normaliser.is_binary.tolist(),
    }


def _map_from_dict(record: dict[str, Any]) -> UnifiedMap:
    slots = SlotMap(tuple(SlotEntry(**entry) for entry in record["slots"]))
    offset, scale = (np.asarray(record[name], dtype=np.float64) for name in ("offset", "scale"))
    is_binary = np.asarray(record["is_binary"], dtype=np.bool_)
    for name, values in (("offset", offset), ("scale", scale), ("is_binary", is_binary)):
        if values.shape != (slots.size,) or not np.isfinite(values).all():
            raise ValueError(f"{name} must be {slots.size} numbers, one for each dimension")
    if (scale < 0).any() or not scale.any():
        raise ValueError("scale must be above 0 where a dimension moves, and some dimension must")
    return UnifiedMap(slots=slots, normaliser=Normaliser(offset, scale, is_binary))
