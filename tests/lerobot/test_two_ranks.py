"""Two processes are one: weights, queue and step count."""

from __future__ import annotations

import torch
from accelerate import Accelerator

from tests.lerobot.two_ranks import losses, train, train_as_rank
from tests.train.conftest import processes as processes
from tests.train.test_distributed import free_port


def test_two_processes_equal_one(tmp_path, processes):
    port = free_port()
    started = [processes.Process(target=train_as_rank, args=(tmp_path, rank, 2, port)) for rank in range(2)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0, 0]
    ranks = [torch.load(tmp_path / f"rank{rank}.pt") for rank in range(2)]
    own_losses = torch.cat([rank.pop("losses") for rank in ranks])
    torch.testing.assert_close(own_losses, losses(Accelerator(cpu=True)))
    alone = train(Accelerator(cpu=True))
    assert alone["ptr.method.pool.queue.targets"].any()
    for name, expected in alone.items():
        torch.testing.assert_close(ranks[0][name], ranks[1][name], rtol=0, atol=0, msg=f"ranks differ in {name}")
        torch.testing.assert_close(ranks[0][name], expected, rtol=1e-4, atol=1e-5, msg=name)
