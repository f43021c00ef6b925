"""A trained PTR policy as the plain base policy: LeRobot loads it where this package is not installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.files import workspace_beside
from ptr_robot.lerobot.loading import HEADS
from ptr_robot.lerobot.saved import find_pretrained

CONFIG, WEIGHTS, TRAINING = "config.json", "model.safetensors", "train_config.json"
PREFIX = "ptr_"
OWN = ("ptr_vla",)  # LeRobot has no such policy


def export_base_policy(run: Path, output: Path) -> tuple[Path, str]:
    """Write the base policy into a new folder, atomically; the folder and the base policy's type."""
    source = find_pretrained(run)
    if source is None:
        raise DataError(f"{run} holds no LeRobot policy; give a run of lerobot-train, a checkpoint or pretrained_model")
    config = json.loads((source / CONFIG).read_text())
    base = _base_type(source, config)
    if output.exists():
        raise ConfigError(f"{output} exists already; choose another folder or remove it")
    with workspace_beside(output) as workspace:
        folder = workspace / output.name
        folder.mkdir()
        _write_weights(source / WEIGHTS, folder / WEIGHTS)
        _write_config(folder / CONFIG, _plain(config, base))
        for file in source.glob("policy_*processor*"):
            shutil.copyfile(file, folder / file.name)
        if (source / TRAINING).is_file():
            training = json.loads((source / TRAINING).read_text())
            _write_config(folder / TRAINING, training | {"policy": _plain(training["policy"], base)})
        folder.replace(output)
    return output, base


def _base_type(source: Path, config: dict[str, Any]) -> str:
    kind = str(config["type"])
    if not kind.startswith(PREFIX):
        raise ConfigError(f"{source} is a policy of type {kind!r} already; there is nothing of PTR to leave out")
    if kind in OWN:
        raise ConfigError(f"{source}: {kind} is no policy of LeRobot's with PTR added; it has no base to export")
    if config.get("ptr", {}).get("belief", {}).get("enabled"):
        raise ConfigError(
            f"{source} was trained with belief tokens, which {kind.removeprefix(PREFIX)} has no place for: its actions "
            "would be others. Train with --policy.ptr.belief.enabled=false to export"
        )
    return kind.removeprefix(PREFIX)


def _plain(config: dict[str, Any], base: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "ptr"} | {"type": base}


def _write_weights(source: Path, output: Path) -> None:
    safetensors = require("safetensors", "lerobot")
    try:
        with safetensors.safe_open(source, framework="pt") as reader:
            names = [name for name in reader.keys() if not name.startswith(HEADS)]  # noqa: SIM118
            tensors = {name: reader.get_tensor(name) for name in names}
            metadata = {key: value for key, value in (reader.metadata() or {}).items() if not key.startswith(HEADS)}
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{source} is not a whole safetensors file ({error})") from error
    require("safetensors.torch", "lerobot").save_file(tensors, output, metadata=metadata or None)


def _write_config(file: Path, values: dict[str, Any]) -> None:
    file.write_text(json.dumps(values, indent=4) + "\n")
