"""Two gloo processes with batch B against one process with batch 2B: the same weights, losses and gradients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from ptr_robot.errors import NonFiniteError, PTRError
from ptr_robot.method import (
    PTR,
    ChunkForward,
    PoolConfig,
    PTRConfig,
    ScorerConfig,
    WeightConfig,
    diagnose,
)
from tests.method.conftest import ACTION_DIM, CONTEXT_DIM, STATE_DIM, TARGET_DIM, make_batch

STEPS = 4
CASES = [(1, "one", 6), (3, "mean", 7)]  # folds, fallback, rows of the first rank: an equal and an unequal split


class Learner(nn.Module):
    """A policy and PTR in one module, as DDP wants them."""

    def __init__(self, folds: int, fallback: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk = nn.Linear(CONTEXT_DIM, CONTEXT_DIM)
        self.embed = nn.Linear(ACTION_DIM, ACTION_DIM)
        self.ptr = PTR(
            PTRConfig(
                pool=PoolConfig(queue_size=32, max_queue_negatives=5),
                scorer=ScorerConfig(hidden_dim=8, num_folds=folds),
                weights=WeightConfig(warmup_steps=1, fallback=fallback),
            ),
            context_dim=CONTEXT_DIM,
            action_dim=ACTION_DIM,
            target_dim=TARGET_DIM,
            state_dim=STATE_DIM,
        )

    def forward(self, raw, samples):
        contexts, tokens = self.trunk(raw.contexts), self.embed(raw.action_tokens)
        predicted = tokens.mean(dim=(1, 2)) + contexts.mean(dim=1)  # a policy that ignores belief tokens
        losses = (predicted - raw.action_losses).square()
        chunk = ChunkForward(losses, contexts, tokens, raw.action_states + tokens)
        return self.ptr(chunk, samples)


def run(learner, module, rows: slice) -> dict:
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.1)
    record: dict = {"weights": [], "losses": []}
    for step in range(STEPS):
        batch = make_batch(12, seed=step, first_id=6 * step)
        part = [replace(v, **{k: t[rows] for k, t in vars(v).items() if isinstance(t, torch.Tensor)}) for v in batch]
        if step == STEPS - 1:  # the last rows, on the second rank all of them, have no target
            lost = torch.arange(12)[rows] >= 6
            part[1] = replace(part[1], has_target=part[1].has_target & ~lost)
        optimizer.zero_grad()
        output = module(*part)
        output.loss.backward()
        optimizer.step()
        learner.ptr.update()
        record["weights"].append(output.weights)
        record["losses"].append(
            torch.stack([output.action_loss, output.identification_loss, output.ranking_loss, output.tokenizer_loss])
        )
        record["diagnostics"] = diagnose(learner.ptr, output, part[1]).scalars()
    record["gradients"] = {name: parameter.grad for name, parameter in learner.named_parameters()}
    record["state"] = learner.state_dict()
    return record


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    for folds, fallback, split in CASES:
        learner = Learner(folds, fallback)
        module = nn.parallel.DistributedDataParallel(learner)
        rows = slice(0, split) if rank == 0 else slice(split, 12)
        torch.save(run(learner, module, rows), Path(folder) / f"{folds}-{rank}.pt")
    try:
        chunk, samples = make_batch(4)
        losses = chunk.action_losses.clone()
        losses[0] = float("nan") if rank == 1 else 0.0
        learner.ptr(replace(chunk, action_losses=losses), samples)
    except NonFiniteError as error:
        (Path(folder) / f"{rank}.txt").write_text(str(error))
    try:
        chunk, samples = make_batch(4)
        broken = replace(samples, targets=samples.targets[:, :2]) if rank == 1 else samples
        learner.ptr(chunk, broken)
    except PTRError as error:
        (Path(folder) / f"shape-{rank}.txt").write_text(str(error))
    del module, learner
    dist.barrier()  # a rank that is gone while the other still talks aborts it
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """The folder where two processes left what they computed."""
    folder = tmp_path_factory.mktemp("ranks")
    mp.spawn(work, args=(str(folder),), nprocs=2)
    return folder


@pytest.mark.parametrize(("folds", "fallback"), [case[:2] for case in CASES])
def test_two_ranks_equal_one(two_ranks, folds, fallback):
    one = Learner(folds, fallback)
    expected = run(one, one, slice(0, 12))
    ranks = [torch.load(two_ranks / f"{folds}-{rank}.pt", weights_only=True) for rank in range(2)]
    for step in range(STEPS):
        got = torch.cat([rank["weights"][step] for rank in ranks])
        torch.testing.assert_close(got, expected["weights"][step], rtol=1e-4, atol=1e-5)
        for rank in ranks:
            torch.testing.assert_close(rank["losses"][step], expected["losses"][step], rtol=1e-4, atol=1e-5)
    assert (torch.cat(expected["weights"][1:]) != 1).any()
    for rank in ranks:
        for name, gradient in expected["gradients"].items():
            torch.testing.assert_close(rank["gradients"][name], gradient, rtol=1e-3, atol=1e-6, msg=name)
        for name, value in expected["state"].items():
            torch.testing.assert_close(rank["state"][name], value, rtol=1e-3, atol=1e-5, equal_nan=True, msg=name)
        assert rank["diagnostics"] == pytest.approx(expected["diagnostics"], rel=1e-3, abs=1e-5)
        assert rank["state"]["ptr.pool.queue.sample_ids"].equal(ranks[0]["state"]["ptr.pool.queue.sample_ids"])


def test_what_one_rank_cannot_use_stops_both(two_ranks):
    for rank in range(2):
        text = (two_ranks / f"{rank}.txt").read_text()
        assert text == "action_losses hold NaN or infinity; check the policy's loss and the recorded actions (rank 1)"
    assert "another rank could not use its input" in (two_ranks / "shape-0.txt").read_text()
    assert "targets has shape (4, 2); expected (4, 6)" in (two_ranks / "shape-1.txt").read_text()
