"""What PTR costs beside a policy's own forward and backward pass, as ratios in one run.

.venv/bin/python benchmarks/method.py            # everything, about ten minutes on two cores
.venv/bin/python benchmarks/method.py --small    # the small policy and the pool, about a minute
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ptr_robot.method import PTR, ChunkForward, EMATargetEncoder, PoolConfig, PTRConfig, Samples, ScorerConfig

LENGTH = 16


def blocks(depth: int, width: int, heads: int) -> nn.Sequential:
    make = lambda: nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)  # noqa: E731
    return nn.Sequential(*[make() for _ in range(depth)])


class Tower(nn.Module):
    """A vision transformer with patches of 14 pixels."""

    def __init__(self, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 14, 14)
        self.blocks = blocks(depth, width, heads)

    def forward(self, images: Tensor) -> Tensor:  # (B, 3, H, W) -> (B, P, width)
        return self.blocks(self.patches(images).flatten(2).mT)


class Policy(nn.Module):
    """The tower, and an action expert of the same depth over vision and action tokens."""

    def __init__(self, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.tower = Tower(depth, width, heads)
        self.embed = nn.Linear(200, width)
        self.expert = blocks(depth, width, heads)
        self.head = nn.Linear(width, 200)

    def forward(self, images: Tensor, actions: Tensor) -> ChunkForward:  # (B, 3, H, W), (B, L, 200)
        vision = self.tower(images)
        tokens = self.embed(actions)
        states = self.expert(torch.cat([vision, tokens], dim=1))[:, -LENGTH:]
        losses = (self.head(states) - actions).square().mean(dim=(1, 2))
        return ChunkForward(losses, vision.mean(dim=1), tokens, states)


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor that any operation gave."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor):
                self.elements = max(self.elements, value.numel())
        return result


def seconds(work: Callable[[], object], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def make_samples(count: int, width: int) -> Samples:
    targets = nn.functional.normalize(torch.randn(count, width), dim=1)
    valid = torch.ones(count, dtype=torch.bool)
    ids = torch.arange(count)
    return Samples(targets, valid, ids, episode_ids=ids // 4, task_ids=ids % 4, states=torch.randn(count, 16))


def leaves(chunk: ChunkForward) -> ChunkForward:
    """The policy's output as the start of a graph of its own, to time PTR's part alone."""
    tensors = {name: value.detach().requires_grad_() for name, value in vars(chunk).items() if value is not None}
    return ChunkForward(**tensors)


def filled(ptr: PTR, width: int) -> PTR:
    """With a full queue, as in the middle of training."""
    assert ptr.pool is not None
    ptr.pool.queue.filled.fill_(True)
    ptr.pool.queue.sample_ids.copy_(torch.arange(ptr.pool.queue.size) + 10**6)
    ptr.pool.queue.targets.copy_(nn.functional.normalize(torch.randn(ptr.pool.queue.size, width), dim=1))
    ptr.controller.hard_ratio = 0.5
    return ptr


def step_costs(name: str, depth: int, width: int, heads: int, batch: int, size: int, repeats: int) -> None:
    torch.manual_seed(0)
    policy = Policy(depth, width, heads)
    images, actions = torch.rand(batch, 3, size, size), torch.randn(batch, LENGTH, 200)
    parameters = sum(parameter.numel() for parameter in policy.parameters())
    tower_share = sum(p.numel() for p in policy.tower.parameters()) / parameters

    def plain() -> None:
        policy.zero_grad()
        policy(images, actions).action_losses.mean().backward()

    base = seconds(plain, repeats)
    print(f"\n{name}: {parameters / 1e6:.0f} M parameters ({tower_share:.0%} in the tower), batch {batch}, {size} px")
    print(f"  policy forward and backward   {base:8.3f} s")
    with torch.no_grad():
        features = policy(images, actions)
    for folds in (1, 2, 5):
        encoder = EMATargetEncoder(policy.tower)
        config = PTRConfig(scorer=ScorerConfig(num_folds=folds))
        ptr = PTR(config, context_dim=width, action_dim=width, target_dim=width, target_encoder=encoder, state_dim=16)
        filled(ptr, width)
        samples, chunk = make_samples(batch, width), leaves(features)

        def heads_step(ptr: PTR = ptr, chunk: ChunkForward = chunk, samples: Samples = samples) -> None:
            ptr.zero_grad()
            ptr(chunk, samples).loss.backward()

        def update(ptr: PTR = ptr) -> None:
            ptr.update(policy.tower)

        if folds == 1:
            encode = seconds(lambda ptr=ptr: ptr.encode(images.unsqueeze(1)), repeats)  # type: ignore[misc]
            print(f"  EMA forward                   {encode:8.3f} s  {encode / base:7.2%} of the policy's step")
        scoring, moving = seconds(heads_step, repeats), seconds(update, repeats)
        rest = (scoring + moving) / base
        print(
            f"  the rest of PTR, {folds} fold{'s' if folds > 1 else ' '}       {scoring + moving:8.3f} s  {rest:7.2%}"
            f"  (scoring and losses {scoring / base:.2%}, EMA and queue update {moving / base:.2%});"
            f" all of PTR {rest + encode / base:.2%}"
        )


def pool_growth(batch: int = 64, width: int = 256, repeats: int = 5) -> None:
    print(f"\nPool: batch {batch}, targets of width {width}; forward and backward of PTR alone")
    print("  candidates   folds     time     ratio   largest tensor   B x K x d would be")
    first: dict[int, float] = {}
    for folds in (1, 2, 5):
        for queue in (64, 256, 1024, 4096, 16_384):
            config = PTRConfig(
                pool=PoolConfig(queue_size=queue, max_queue_negatives=queue), scorer=ScorerConfig(num_folds=folds)
            )
            ptr = filled(PTR(config, context_dim=width, action_dim=width, target_dim=width, state_dim=16), width)
            chunk = leaves(
                ChunkForward(
                    torch.rand(batch),
                    torch.randn(batch, width),
                    torch.randn(batch, LENGTH, width),
                    torch.randn(batch, LENGTH, width),
                )
            )
            samples = make_samples(batch, width)
            taken = seconds(lambda: ptr(chunk, samples).loss.backward(), repeats)  # noqa: B023
            with LargestTensor() as largest:
                output = ptr(chunk, samples)
            first.setdefault(folds, taken)
            candidates = int(output.candidate_counts[0])
            print(
                f"  {candidates:10,d}   {folds:5d}  {taken * 1e3:7.1f} ms  {taken / first[folds]:6.1f}x"
                f"   {largest.elements * 4 / 2**20:10.1f} MiB   {batch * candidates * width * 4 / 2**20:12.1f} MiB"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="leave the large policy out")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32, CPU; medians")
    step_costs("small policy (4 + 4 blocks of width 128)", 4, 128, 4, batch=64, size=112, repeats=7)
    pool_growth()
    if not arguments.small:
        step_costs("large policy (24 + 24 blocks of width 1024)", 24, 1024, 16, batch=8, size=112, repeats=3)


if __name__ == "__main__":
    main()
