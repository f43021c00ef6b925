"""Several processes, started as docs/training.md spells it, on CPUs and without a flag for them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from safetensors.torch import load_file

from ptr_robot.cli.train import read_flags
from ptr_robot.errors import ConfigError
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.processes import check_launcher, trains_on_cpu

from .test_distributed import train_on_two

DOCS = Path(__file__).parents[2] / "docs/training.md"
BIN = Path(sys.executable).parent


def launcher(name: str) -> list[str]:
    """The words before the module, as the docs have them, with a free port where the launcher has no such default."""
    line = next(line for line in DOCS.read_text().splitlines() if line.startswith(f"{name} "))
    words = line.partition(" -m ")[0].split()
    port = ["--standalone"] if name == "torchrun" else ["--main_process_port=0"]
    return [str(BIN / words[0]), *words[1:], *port]


def start(name: str, data: Path, run: Path, *flags: str) -> subprocess.Popen:
    settings = {
        "dataset.repo_id": data,
        "dataset.num_chunks": 2,
        "dataset.cache_dir": run.parent / "cache",
        "policy.preset": "micro-state",
        "policy.chunk_length": 4,
        "method": "sft",
        "batch_size": 2,
        "num_workers": 0,
        "output_dir": run,
    }
    words = [f"--{name}={value}" for name, value in settings.items()]
    command = [*launcher(name), "-m", "ptr_robot.cli.main", "train", *words, *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def environment() -> dict[str, str]:
    """One thread a process, as the launchers would have it, and nothing of a launcher around the tests."""
    dropped = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    return {name: value for name, value in os.environ.items() if name not in dropped} | {"OMP_NUM_THREADS": "1"}


def wait_for(condition, process: subprocess.Popen, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "too slow"
        time.sleep(0.1)


@pytest.mark.slow
def test_both_launchers_start_two_processes_that_find_each_other(state_data, tmp_path):
    runs = {name: tmp_path / name for name in ("torchrun", "accelerate")}
    for name, run in runs.items():
        process = start(name, state_data, run, "--steps=2", "--save_freq=2", "--log_freq=2")
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        assert json.loads((run / "run.json").read_text())["processes"] == 2
    one, other = (load_file(latest_checkpoint(run) / "pretrained_model/model.safetensors") for run in runs.values())
    assert all(one[name].equal(other[name]) for name in one)


def kill_one(process: subprocess.Popen, rank: int, run: Path, saved_before: Path | None) -> Path:
    """Kill one of two processes once there is another checkpoint; the last one that they leave."""
    wait_for(lambda: latest_checkpoint(run) not in (None, saved_before), process)
    ranks = sorted(psutil.Process(process.pid).children(), key=lambda child: child.pid)
    assert len(ranks) == 2
    ranks[rank].send_signal(signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert len(re.findall("^ptr: error: .*$", errors, re.MULTILINE)) <= 1
    assert "ptr_robot/train" not in errors, errors  # no traceback of this package
    return latest_checkpoint(run)


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_all_of_them_and_the_run_can_go_on(state_data, tmp_path, processes):
    """First the one, then, in the run that goes on, the other; the processes that end it need no launcher."""
    run = tmp_path / "run"
    process = start("torchrun", state_data, run, "--steps=100000", "--save_freq=5", "--log_freq=5")
    saved = kill_one(process, 0, run, None)
    again = start("torchrun", state_data, run, "--resume=true")
    saved = kill_one(again, 1, run, saved)
    step = int(saved.name)
    config, _ = read_flags(["--resume=true", f"--output_dir={run}", f"--steps={step + 5}"])
    train_on_two(config, processes)
    assert latest_checkpoint(run).name == f"{step + 5:06d}"


def test_one_process_of_several_that_were_asked_for_is_an_error(monkeypatch):
    for name in ("WORLD_SIZE", "MASTER_PORT", "ACCELERATE_USE_CPU"):
        monkeypatch.delenv(name, raising=False)
    check_launcher()
    monkeypatch.setenv("MASTER_PORT", "29500")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "False")
    with pytest.raises(ConfigError, match="--multi_gpu"):
        check_launcher()
    monkeypatch.setenv("WORLD_SIZE", "2")
    check_launcher()


def test_several_processes_without_a_gpu_train_on_the_cpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert not trains_on_cpu(None)
    assert trains_on_cpu("cpu")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert trains_on_cpu(None)
