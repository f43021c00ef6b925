"""A run folder that explains itself, and belongs to one process at a time."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from ptr_robot import __version__
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.files import atomic_file, process_lock, refuse_foreign_files
from ptr_robot.text_files import read_json
from ptr_robot.train.build import RunParts
from ptr_robot.train.checkpoint_folders import FOLDER as CHECKPOINTS_FOLDER
from ptr_robot.train.config import RunPlan
from ptr_robot.train.config_file import CONFIG_FILE, write_config
from ptr_robot.train.records import RECORDS_FILE, TENSORBOARD_FOLDER, WANDB_ID_FILE

RUN_FILE = "run.json"
README_FILE = "README.txt"
WANDB_FOLDER = "wandb"  # as Weights & Biases calls it
LOCK = "run"
# All that a run has before its first checkpoint.
_WRITTEN_FIRST = (CONFIG_FILE, RUN_FILE, README_FILE, RECORDS_FILE, WANDB_ID_FILE)
_FIRST_FILES = {
    *_WRITTEN_FIRST,
    *(f"{name}.partial" for name in _WRITTEN_FIRST),
    f"{LOCK}.lock",
    TENSORBOARD_FOLDER,
    WANDB_FOLDER,
}
VERSIONED = ("torch", "accelerate", "lerobot", "timm", "transformers", "numpy")

README = """\
A training run of ptr-robot: {job_name}

  train_config.json       every setting
  run.json                when, with which versions, on which data, how many parameters
  records.jsonl           one line of numbers every {log_freq} steps (docs/metrics.md); tensorboard/ shows them
  episode_scores.parquet  mean score and weight of each episode
  curves.png              the main numbers over the steps, once the run has ended
  checkpoints/<step>/     pretrained_model is the policy, training_state what resuming needs; last is the newest

Go on with it:            ptr train --resume=true --output_dir={run}
Watch it:                 tensorboard --logdir={run}/tensorboard
Post-train from it:       ptr train --policy.path={run}/checkpoints/last/pretrained_model ...
"""


def check_free(run: Path, *, resume: bool) -> None:
    """Refuse a folder that holds something, unless its run is to be resumed or failed before its first checkpoint.

    Whoever made the folder, what is written into it stays in it: a link that leads out is refused in any case.
    """
    if run.is_dir():
        refuse_foreign_files(run, left_alone=WANDB_FOLDER)  # which links to its own logs elsewhere
    if resume or not run.exists():
        return
    if not run.is_dir():
        raise ConfigError(f"output_dir {run} is a file; choose another --output_dir")
    names = {path.name for path in run.iterdir() if path.name != CHECKPOINTS_FOLDER or _has_checkpoint(path)}
    has_failed = names <= _FIRST_FILES and CONFIG_FILE in names
    if names - {f"{LOCK}.lock", f"{CONFIG_FILE}.partial"} and not has_failed:
        raise ConfigError(
            f"output_dir {run} exists already; choose another --output_dir, or go on with its run by --resume=true"
        )


def _has_checkpoint(folder: Path) -> bool:
    """Hidden names are those of checkpoints that a killed run was writing."""
    return not folder.is_dir() or any(not path.name.startswith(".") for path in folder.iterdir())


@contextlib.contextmanager
def occupied(run: Path) -> Iterator[None]:
    """Keep the folder to this process; the kernel lets go of it however the process ends."""
    with process_lock(run / LOCK, wait=False) as is_mine:
        if not is_mine:
            raise ConfigError(f"output_dir {run} is in use by another training process; wait for it or choose another")
        yield


def describe_run(plan: RunPlan, parts: RunParts, *, world_size: int, first_step: int) -> None:
    """Write the settings and what they led to; a resumed run adds the time and place it went on from."""
    run = plan.output_dir
    write_config(plan.config, run)
    text = README.format(job_name=plan.config.job_name, log_freq=plan.log_freq, run=run)
    with atomic_file(run / README_FILE) as file:
        file.write(text.encode())
    starts = [*_earlier_starts(run), {"time": datetime.now().astimezone().isoformat(), "first_step": first_step}]
    record = {"starts": starts, **_versions(), **_contents(plan, parts, world_size)}
    with atomic_file(run / RUN_FILE) as file:
        file.write((json.dumps(record, indent=2) + "\n").encode())


def _earlier_starts(run: Path) -> list[dict[str, Any]]:
    file = run / RUN_FILE
    try:
        return list(read_json(file, "take it away, and the run can go on")["starts"]) if file.is_file() else []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file} is damaged; take it away, and the run can go on") from error


def _versions() -> dict[str, Any]:
    packages = {name: _version(name) for name in VERSIONED}
    return {
        "command": " ".join(sys.argv),
        "versions": {"ptr-robot": __version__, "python": platform.python_version(), **packages},
        "platform": platform.platform(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _contents(plan: RunPlan, parts: RunParts, world_size: int) -> dict[str, Any]:
    dataset = parts.loader.dataset
    return {
        "processes": world_size,
        "global_batch_size": plan.batch_size * world_size * plan.config.gradient_accumulation_steps,
        "parameters": {
            "policy": sum(parameter.numel() for parameter in parts.policy.parameters()),
            "ptr": sum(p.numel() for p in parts.module.ptr.parameters() if p.requires_grad),
            "target_encoder": sum(p.numel() for p in parts.module.ptr.parameters() if not p.requires_grad),
        },
        "data": [
            {
                "source": source.config.repo_id,
                "robot": source.robot.name,
                "episodes": len(source.index.episodes),
                "left_out": len(source.index.left_out),
                "segments": count,
                "tasks": sorted(source.index.tasks.values()),
                "cameras": list(source.cameras),
            }
            for source, count in zip(dataset.sources, dataset.counts, strict=True)
        ],
    }
