"""What PTR costs beside a policy's own forward and backward pass, as ratios in one run.

.venv/bin/python benchmarks/method.py            # everything, about ten minutes on two cores
.venv/bin/python benchmarks/method.py --small    # the small policy and the pool, about a minute
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

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


def peak_mebibytes(work: Callable[[], object]) -> float:
    """The most that was allocated at once beyond what was there before, by the profiler's own record."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    current = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        current += event.nbytes()
        peak = max(peak, current)
    return peak / 2**20


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

        def scoring_step(ptr: PTR = ptr, chunk: ChunkForward = chunk, samples: Samples = samples) -> None:
            ptr.zero_grad()
            ptr(chunk, samples).loss.backward()
            ptr.update(policy.tower)

        if folds == 1:
            encode = seconds(lambda ptr=ptr: ptr.encode(images.unsqueeze(1)), repeats)  # type: ignore[misc]
            print(f"  EMA forward                   {encode:8.3f} s  {encode / base:7.2%} of the policy's step")
            moving = seconds(lambda: encoder.update(policy.tower, 0.999), repeats)  # noqa: B023
            print(f"  EMA weights (part of the rest){moving:8.3f} s  {moving / base:7.2%}")
        rest = seconds(scoring_step, repeats)
        plural = "s" if folds > 1 else " "
        whole = (rest + encode) / base
        print(
            f"  the rest of PTR, {folds} fold{plural}       {rest:8.3f} s  {rest / base:7.2%}; all of PTR {whole:.2%}"
        )


def pool_growth(batch: int = 64, width: int = 256, repeats: int = 5) -> None:
    print(f"\nPool: batch {batch}, targets of width {width}; forward, backward and update of PTR alone")
    print("  queue    drawn   folds      time   ratio   peak memory   B x K x d would be")
    for drawn_most in (64, 16_384):
        for folds in (1, 2, 5):
            first = None
            for queue in (64, 1024, 4096, 16_384):
                pool = PoolConfig(queue_size=queue, max_queue_negatives=drawn_most)
                config = PTRConfig(pool=pool, scorer=ScorerConfig(num_folds=folds))
                ptr = filled(PTR(config, context_dim=width, action_dim=width, target_dim=width, state_dim=16), width)
                shapes = ((batch,), (batch, width), (batch, LENGTH, width), (batch, LENGTH, width))
                chunk, samples = leaves(ChunkForward(*map(torch.rand, shapes))), make_samples(batch, width)

                def step(ptr: PTR = ptr, chunk: ChunkForward = chunk, samples: Samples = samples) -> None:
                    ptr(chunk, samples).loss.backward()
                    ptr.update()

                taken, memory = seconds(step, repeats), peak_mebibytes(step)
                first = first or taken
                drawn = min(drawn_most, queue)
                print(
                    f"  {queue:6,d}  {drawn:6,d}   {folds:5d}  {taken * 1e3:7.1f} ms  {taken / first:5.1f}x"
                    f"   {memory:7.1f} MiB   {batch * (batch + drawn) * width * 4 / 2**20:10.1f} MiB"
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
