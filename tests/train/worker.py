"""What the tests run in processes of their own; importing it loads everything that training needs."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path

from ptr_robot.cli.main import main
from ptr_robot.train import loop, optimisation, step_progress
from ptr_robot.train.config import TrainConfig

for heavy in ("accelerate", "timm", "transformers.optimization", "torch.utils.tensorboard", "pyarrow.parquet"):
    importlib.import_module(heavy)
importlib.import_module("transformers.models.qwen3.modeling_qwen3")


def train_and_exit(config: TrainConfig) -> None:
    """A whole run; the exit code is the run's."""
    _one_thread()
    sys.exit(loop.train(config).exit_code)


def train_and_signal_self(config: TrainConfig, after_steps: int, number: signal.Signals, to_all: bool = False) -> None:
    """A run in which the operating system delivers a signal in the middle of a step, or to its data workers as well."""
    _one_thread()
    os.setpgrp()
    step = optimisation.Optimiser.step

    def step_then_signal(self, batches, done):
        if done == after_steps:
            os.killpg(0, number) if to_all else os.kill(os.getpid(), number)
        return step(self, batches, done)

    optimisation.Optimiser.step = step_then_signal
    train_and_exit(config)


def screen_and_signal_group(arguments: list[str], stage: str, number: signal.Signals, printed: Path) -> None:
    """``ptr train`` whose whole process group gets a signal in a stage of screening."""
    _one_thread()
    os.setpgrp()
    os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    tell = step_progress.ScreeningProgress.__call__

    def tell_then_signal(self, name, share):
        tell(self, name, share)
        if name == stage:
            os.killpg(0, number)

    step_progress.ScreeningProgress.__call__ = tell_then_signal
    sys.argv = ["ptr", "train", *arguments]
    main()


def rank_environment(rank: int, world_size: int, port: int) -> dict[str, str]:
    """What torchrun tells each of its processes."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def train_as_rank(config: TrainConfig, rank: int, world_size: int, port: int) -> None:
    """One of several processes, as torchrun starts them."""
    os.environ |= rank_environment(rank, world_size, port)
    train_and_exit(config)


def train_as_sharded_rank(config: TrainConfig, rank: int, world_size: int, port: int) -> None:
    """One of several processes, as accelerate launch starts them with configs/fsdp2.yaml."""
    os.environ |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
    train_as_rank(config, rank, world_size, port)


def train_with_small_disk(config: TrainConfig, limit_bytes: int, message: Path) -> None:
    """A run whose files cannot grow beyond a limit, as on a disk that is full."""
    import resource

    from ptr_robot.errors import DataError

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))
    try:
        train_and_exit(config)
    except DataError as error:
        message.write_text(str(error))
        sys.exit(7)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)
