"""The processes of a run: each finds the others that the launcher started, and says so when one is lost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import torch

from ptr_robot.errors import ConfigError, PTRError, require
from ptr_robot.train.config import RunPlan, TrainConfig, chosen_precision, resolve
from ptr_robot.train.cpu_bf16 import avoid_broken_tiles
from ptr_robot.train.sharding import is_sharded_run

_LONGEST_WAIT = timedelta(hours=4)  # of one process for the others: the first decodes and screens a whole dataset


class LostProcessError(PTRError, RuntimeError):
    """A process that the run needs has ended."""


def make_accelerator(config: TrainConfig) -> Any:
    """accelerate with what this loop needs: parameters that a method does not use, and buffers that ranks agree on."""
    accelerate = require("accelerate", "lerobot")
    handlers = require("accelerate.utils", "lerobot")
    ddp = handlers.DistributedDataParallelKwargs(find_unused_parameters=True, broadcast_buffers=False)
    group = handlers.InitProcessGroupKwargs(timeout=_LONGEST_WAIT)
    precision = chosen_precision(config)
    if precision == "bf16":
        avoid_broken_tiles()
    check_launcher()
    accelerator = accelerate.Accelerator(
        mixed_precision=precision,
        cpu=trains_on_cpu(config.policy.device),
        kwargs_handlers=[ddp, group],
    )
    if config.policy.device == "cuda" and accelerator.device.type != "cuda":
        raise ConfigError("policy.device is cuda and torch finds no GPU here; leave the flag out, or set it to cpu")
    way = accelerator.distributed_type.value
    if way not in ("NO", "MULTI_CPU", "MULTI_GPU", "FSDP"):
        raise ConfigError(f"accelerate is set up for {way}; ptr train knows whole copies (DDP) and shares (FSDP 2)")
    is_sharded_run(accelerator)  # refuses FSDP 1
    if accelerator.num_processes != launched_processes():
        raise ConfigError(
            f"the launcher started {launched_processes()} processes, and accelerate finds {accelerator.num_processes}; "
            "set --policy.device=cpu, or give every process its own GPU"
        )
    return accelerator


def launched_processes() -> int:
    """How many processes the launcher says there are; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def trains_on_cpu(device: str | None) -> bool:
    """Whether accelerate must be told: of several processes without a GPU, each would otherwise believe to be alone."""
    return device == "cpu" or (device is None and launched_processes() > 1 and not torch.cuda.is_available())


def check_launcher() -> None:
    """Refuse to be the only process where several were asked for.

    Without a GPU ``accelerate launch --num_processes=2`` starts one. It names where the others could be found, and
    says neither which of them this one is nor how many there are.
    """
    is_one_of_several = "ACCELERATE_USE_CPU" in os.environ and "MASTER_PORT" in os.environ
    if is_one_of_several and "WORLD_SIZE" not in os.environ:
        raise ConfigError(
            "accelerate launch was asked for several processes and started this one alone, as it does without GPUs; "
            "add --multi_gpu, with which it starts all of them on CPUs too, or use torchrun --nproc_per_node=N"
        )


def agree_on_plan(config: TrainConfig) -> RunPlan:
    """The plan of the first rank for all: a folder named after the time must be the same one."""
    plan = resolve(config, datetime.now())
    folder = [str(plan.output_dir)]
    require("accelerate.utils", "lerobot").broadcast_object_list(folder)
    return replace(plan, output_dir=Path(folder[0]))


@contextlib.contextmanager
def others_may_end(run: Path) -> Iterator[None]:
    """What torch says when another process of the run is gone, in one line."""
    try:
        yield
    except RuntimeError as error:
        is_network = isinstance(error, torch.distributed.DistError) or "gloo" in str(error)
        if isinstance(error, PTRError) or not is_network:
            raise
        raise LostProcessError(
            f"another process of the run ended, and this one with it; look at what it said, then go on from the last "
            f"checkpoint with: --resume=true --output_dir={run}"
        ) from error
