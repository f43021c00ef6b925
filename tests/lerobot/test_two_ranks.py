"""Two processes are one: weights, queue and step count."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch
from accelerate import Accelerator

from tests.lerobot.two_ranks import losses, train


def test_two_processes_equal_one(tmp_path):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command += ["-m", "tests.lerobot.two_ranks", str(tmp_path)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [torch.load(tmp_path / f"rank{rank}.pt") for rank in range(2)]
    own_losses = torch.cat([rank.pop("losses") for rank in ranks])
    torch.testing.assert_close(own_losses, losses(Accelerator(cpu=True)))
    alone = train(Accelerator(cpu=True))
    assert alone["ptr.method.pool.queue.targets"].any()
    for name, expected in alone.items():
        torch.testing.assert_close(ranks[0][name], ranks[1][name], rtol=0, atol=0, msg=f"ranks differ in {name}")
        torch.testing.assert_close(ranks[0][name], expected, rtol=1e-4, atol=1e-5, msg=name)
