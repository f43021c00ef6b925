"""FSDP2 on two gloo processes against one process: the recipe of docs/method.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ptr_robot.method import PTR, ChunkForward, EMATargetEncoder, PTRConfig, Samples, TargetConfig, WeightConfig

WIDTH = 16


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 8, 8)
        self.blocks = nn.Sequential(
            *[nn.TransformerEncoderLayer(WIDTH, 4, 32, 0.0, batch_first=True) for _ in range(4)]
        )

    def forward(self, images):
        return self.blocks(self.patches(images).flatten(2).mT)


class Learner(nn.Module):
    """A policy and its PTR."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.vision, self.embed, self.head = Tower(), nn.Linear(7, WIDTH), nn.Linear(WIDTH, 7)
        encoder = EMATargetEncoder(self.vision)
        config = PTRConfig(targets=TargetConfig(ema_decay=0.9), weights=WeightConfig(warmup_steps=0))
        self.ptr = PTR(config, context_dim=WIDTH, action_dim=WIDTH, target_dim=WIDTH, target_encoder=encoder)

    def forward(self, images, futures, actions, ids):
        belief = self.ptr.initial_belief(len(actions))
        contexts = self.vision(images).mean(dim=1) + belief.mean(dim=1)
        losses = (self.head(contexts).unsqueeze(1) - actions).square().mean(dim=(1, 2))
        tokens = self.embed(actions)
        targets = self.ptr.make_targets(self.ptr.encode(futures.unsqueeze(1)))
        samples = Samples(targets, torch.ones(len(actions), dtype=torch.bool), ids)
        return self.ptr(ChunkForward(losses, contexts, tokens, tokens), samples)


def shard(learner: Learner) -> None:
    mesh = init_device_mesh("cpu", (2,))
    for tower in (learner.vision, learner.ptr.target_encoder.tower):
        for block in tower.blocks:
            fully_shard(block, mesh=mesh)
    fully_shard(learner.ptr.target_encoder.tower, mesh=mesh)
    fully_shard(learner, mesh=mesh)


def run(learner: Learner, rows: slice) -> list[float]:
    optimizer = torch.optim.AdamW([p for p in learner.parameters() if p.requires_grad], lr=1e-2)
    random = torch.Generator().manual_seed(1)
    losses = []
    for step in range(4):
        images, futures = torch.rand(2, 8, 3, 16, 16, generator=random)
        actions = torch.randn(8, 4, 7, generator=random)
        ids = torch.arange(8) + 8 * step
        output = learner(images[rows], futures[rows], actions[rows], ids[rows])
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        learner.ptr.update(learner.vision)
        losses += [output.action_loss.item(), output.identification_loss.item()]
    return losses


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    learner = Learner()
    shard(learner)
    (Path(folder) / f"{rank}.json").write_text(json.dumps(run(learner, slice(4 * rank, 4 * rank + 4))))
    dist.destroy_process_group()


def test_two_sharded_ranks_equal_one_process(tmp_path):
    mp.spawn(work, args=(str(tmp_path),), nprocs=2)
    expected = run(Learner(), slice(0, 8))
    for rank in range(2):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == pytest.approx(expected, rel=1e-4)
