"""Run by two processes: LeRobot's own training step, each rank on its share of the batches."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from lerobot.scripts.lerobot_train import update_policy
from lerobot.utils.logging_utils import AverageMeter, MetricsTracker

from ptr_robot.lerobot.taps import sample_losses
from tests.lerobot.small_policies import ACT_NO_VAE, BATCH, make_batch, make_pair
from tests.train.worker import rank_environment

STEPS = 3


def train(accelerator: Accelerator) -> dict[str, torch.Tensor]:
    """The state after a few steps; two ranks together see what one rank alone sees."""
    policy, _ = make_pair(ACT_NO_VAE)
    for module in policy.modules():
        if isinstance(module, torch.nn.Dropout | torch.nn.MultiheadAttention):
            module.p = module.dropout = 0.0  # ranks draw different numbers
    optimizer = torch.optim.SGD(policy.get_optim_params(), lr=0.01)
    names = ("loss", "grad_norm", "lr", "update_s")
    tracker = MetricsTracker(BATCH, 100, 10, {name: AverageMeter(name) for name in names})
    prepared, optimizer = accelerator.prepare(policy, optimizer)
    share = BATCH // accelerator.num_processes
    mine = slice(accelerator.process_index * share, (accelerator.process_index + 1) * share)
    for step in range(STEPS):
        batch = make_batch(ACT_NO_VAE, policy.config, seed=step)
        own = {key: value[mine] for key, value in batch.items()}
        update_policy(tracker, prepared, own, optimizer, 0.0, accelerator)
    return {name: value.detach().clone() for name, value in policy.state_dict().items()}


def losses(accelerator: Accelerator) -> torch.Tensor:
    """This rank's losses as means over real steps, which LeRobot 0.6 takes for ACT and we take for SmolVLA and π0."""
    generator = torch.Generator().manual_seed(0)
    errors = torch.rand(BATCH, 6, 3, generator=generator)
    is_real = torch.arange(6) < torch.arange(1, BATCH + 1).unsqueeze(1)  # ranks differ in what they pad
    share = BATCH // accelerator.num_processes
    mine = slice(accelerator.process_index * share, (accelerator.process_index + 1) * share)
    return sample_losses(errors[mine], is_real[mine], over_valid_steps=True)


def train_as_rank(folder: Path, rank: int, world_size: int, port: int) -> None:
    """One of several processes, as torchrun starts them; it leaves its state in the folder."""
    torch.set_num_threads(1)
    os.environ |= rank_environment(rank, world_size, port)
    kwargs = DistributedDataParallelKwargs(find_unused_parameters=True)  # as lerobot-train has it
    accelerator = Accelerator(cpu=True, kwargs_handlers=[kwargs])
    assert accelerator.num_processes == world_size
    state = train(accelerator) | {"losses": losses(accelerator)}
    torch.save(state, folder / f"rank{accelerator.process_index}.pt")
    accelerator.end_training()
