"""What PTR costs in training, as ratios in one run.

    python benchmarks/train.py

On the preset `tiny` (64-pixel images, T = 4 chunks of L = 16 actions, 16 segments a step): the time of a step of each
method against plain SFT, steps taken in turn and the fastest counted, since other work on the machine only ever adds;
its operations; where its time goes; what the pass over belief and actions costs chunk by chunk, all chunks at once, and
without the belief; peak memory of a process that trains each; two processes against one on the same global batch. On
the presets `being-h05` and `tiny`: the floating-point operations (matrix products, convolutions, attention) of one
training step, forward and backward, as torch counts them. Everything is counted: both towers, the trunk with its
recomputed activations, the heads, the belief tokenizer, the scorer and its candidates.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.flop_counter import FlopCounterMode

from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.method import PTR, ChunkForward, EMATargetEncoder, Samples
from ptr_robot.policy.interface import TrainingChunk
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation
from ptr_robot.policy.vla.policy import MixturePolicy
from ptr_robot.policy.vla.presets import preset
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.train.build import build_parts
from ptr_robot.train.config import DatasetConfig, TrainConfig, resolve
from ptr_robot.train.methods.registry import training_method
from ptr_robot.train.optimisation import Optimiser
from ptr_robot.train.processes import make_accelerator

METHODS = ("sft", "sft-belief", "ptr", "small-data")
BATCH, CHUNKS, LENGTH, PIXELS = 16, 4, 16, 64


def record(root: Path, num_episodes: int = 4, length: int = 100) -> Path:
    """A dataset of random motion and random pictures: the cost does not depend on what they show."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    vector = {"dtype": "float32", "shape": (4,), "names": None}
    picture = {"dtype": "image", "shape": (PIXELS, PIXELS, 3), "names": ["height", "width", "channels"]}
    features = {"observation.state": vector, "action": vector, "observation.images.top": picture}
    dataset = LeRobotDataset.create("owner/set", fps=10, features=features, root=root, robot_type="metaworld")
    generator = np.random.default_rng(0)
    for _ in range(num_episodes):
        for _ in range(length):
            state, action = generator.normal(size=(2, 4)).astype("f4")
            image = generator.integers(0, 255, (PIXELS, PIXELS, 3)).astype("u1")
            frame = {"observation.state": state, "action": action, "observation.images.top": image}
            dataset.add_frame(frame | {"task": "push the puck to the goal"})
        dataset.save_episode()
    dataset.finalize()
    return root


def settings(root: Path, method: str) -> TrainConfig:
    """One run of the benchmark; the weights' warm-up is over from the start."""
    ptr = training_method(method).ptr_config(steps=1000, log_freq=100)
    return TrainConfig(
        dataset=DatasetConfig(repo_id=str(root), num_chunks=CHUNKS, cache_dir=str(root.parent / "cache")),
        policy=VLAChoice(preset="tiny", chunk_length=LENGTH, device="cpu"),
        method=method,
        ptr=dataclasses.replace(ptr, weights=dataclasses.replace(ptr.weights, warmup_steps=0)),
        steps=1000,
        batch_size=BATCH,
        num_workers=0,
    )


def make_optimiser(config: TrainConfig) -> tuple[Optimiser, SegmentBatch]:
    plan = resolve(config, datetime.now())
    parts = build_parts(plan)
    return Optimiser(plan, parts.module, make_accelerator(config)), next(iter(parts.loader))


def step_times(root: Path, rounds: int) -> None:
    """Processor seconds and wall seconds of a step, in turn over methods."""
    runs = {method: make_optimiser(settings(root, method)) for method in METHODS}
    times: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
    for number in range(rounds + 2):
        for method, (optimiser, batch) in runs.items():
            started = time.process_time(), time.perf_counter()
            optimiser.step([batch], number)
            times[method].append((time.process_time() - started[0], time.perf_counter() - started[1]))
    fastest = {m: [min(pair[kind] for pair in times[m][2:]) for kind in (0, 1)] for m in METHODS}
    operations = {method: step_operations(*runs[method], rounds + 2) for method in METHODS}
    print(f"step of `tiny`, batch {BATCH} x {CHUNKS} chunks, {torch.get_num_threads()} threads, fastest of {rounds}")
    for method, (processor, wall) in fastest.items():
        ratios = processor / fastest["sft"][0], wall / fastest["sft"][1]
        print(f"  {method:11s} processor {processor:.3f} s = {ratios[0]:.2f}x", end="")
        print(f"   wall {wall:.3f} s = {ratios[1]:.2f}x", end="")
        print(f"   operations {operations[method] / operations['sft']:.2f}x SFT", flush=True)
    breakdown(*runs["ptr"])


def step_operations(optimiser: Optimiser, batch: SegmentBatch, number: int) -> int:
    """FLOPs of one of the very steps that are timed."""
    with FlopCounterMode(display=False) as counter:
        optimiser.step([batch], number)
    return counter.get_total_flops()


def breakdown(optimiser: Optimiser, batch: SegmentBatch) -> None:
    """Where a step of PTR goes; the backward pass is what the parts leave of the whole."""
    module = optimiser.module
    places = {
        "target encoder": module.ptr.target_encoder,
        "policy, forward": module.policy,
        "belief tokenizer": module.ptr.belief,
        "scorer": module.ptr.scorer,
        "candidate pool": module.ptr.pool,
    }
    for name, part in places.items():
        _measured(part, name)
    begin = _named(module.policy.forward_segments, "policy, forward")
    module.policy.forward_segments = lambda chunks: _named(begin(chunks), "policy, forward")
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        started = time.perf_counter()
        optimiser.step([batch], 100)
        total = time.perf_counter() - started
    spent = {event.key: event.cpu_time_total / 1e6 for event in profiler.key_averages() if event.key in places}
    optimiser_time = sum(e.cpu_time_total / 1e6 for e in profiler.key_averages() if e.key.startswith("Optimizer.step"))
    print("where a step of PTR goes")
    for name, seconds in spent.items():
        print(f"  {name:17s} {seconds / total:5.1%}")
    print(f"  {'AdamW':17s} {optimiser_time / total:5.1%}")
    rest = total - sum(spent.values()) - optimiser_time
    print(f"  {'backward and rest':17s} {rest / total:5.1%}", flush=True)


def recursion_times(rounds: int, context: int = 105) -> None:
    """Processor seconds of the pass over belief and actions, forward and backward, on a context of that many tokens.

    Chunk by chunk is what training does. All at once, with the belief as if it were known, is the least that any way
    of computing the recursion could cost; without belief tokens it is what SFT pays for its actions.
    """
    policy = MixturePolicy(preset("tiny")).train()
    num_belief = policy.config.num_belief_tokens
    ways = {
        "chunk by chunk": [_action_pass(policy, BATCH, context, num_belief) for _ in range(CHUNKS)],
        "all at once": [_action_pass(policy, BATCH * CHUNKS, context, num_belief)],
        "without belief": [_action_pass(policy, BATCH * CHUNKS, context, 0)],
    }
    fastest = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, passes in ways.items():
            policy.zero_grad()
            started = time.process_time()
            torch.stack([run() for run in passes]).sum().backward()
            fastest[name] = min(fastest[name], time.process_time() - started)
    print("the pass over belief and actions, processor time")
    for name, seconds in fastest.items():
        print(f"  {name:14s} {seconds:.3f} s = {seconds / fastest['without belief']:.2f}x", flush=True)


def _action_pass(policy: MixturePolicy, count: int, context: int, num_belief: int) -> Callable[[], torch.Tensor]:
    """A forward pass over ``count`` chunks' belief and action tokens, on random keys and values of their contexts."""
    trunk, length = policy.trunk, num_belief + LENGTH
    heads = count, context, trunk.config.num_key_value_heads, trunk.config.head_dim
    past = [(_leaf(*heads), _leaf(*heads)) for _ in range(trunk.config.num_layers)]
    tokens, nothing = _leaf(count, length, trunk.config.action.width), torch.zeros(count, 0, trunk.config.context.width)
    mask = torch.ones(count, length, context + length, dtype=torch.bool)
    mask[:, :num_belief, context + num_belief :] = False  # belief attends to no action
    layout = trunk.layout((context + torch.arange(length)).expand(count, -1), mask)
    answer = torch.randn(count, length, trunk.config.action.width)
    return lambda: (trunk(nothing, tokens, layout, past).gen * answer).mean()


def _leaf(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def measured(*arguments: Any, **named: Any) -> Any:
        with record_function(name):
            return function(*arguments, **named)

    return measured


def _measured(part: torch.nn.Module, name: str) -> None:
    part.forward = _named(part.forward, name)


MEMORY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from train import make_optimiser, settings
optimiser, batch = make_optimiser(settings(Path(sys.argv[2]), sys.argv[3]))
for number in range(3):
    optimiser.step([batch], number)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def memory(root: Path) -> None:
    """Peak resident memory of a process that takes three steps."""
    print("peak memory of a process")
    peaks = {}
    for method in ("sft", "ptr"):
        arguments = [sys.executable, "-c", MEMORY, str(Path(__file__).parent), str(root), method]
        run = subprocess.run(arguments, capture_output=True, text=True, check=True)
        peaks[method] = int(run.stdout.split()[-1]) / 1024
        print(f"  {method:4s} {peaks[method]:.0f} MiB = {peaks[method] / peaks['sft']:.2f}x SFT", flush=True)


def two_processes(root: Path, folder: Path, steps: int) -> None:
    """Steps a second of one process with batch 2B and of two with batch B, one thread each."""
    print(f"two processes against one, same global batch of {BATCH}, one thread each, method ptr")
    rates = {}
    for processes in (1, 2):
        run = folder / f"run_{processes}"
        flags = [f"--dataset.repo_id={root}", f"--dataset.cache_dir={root.parent / 'cache'}", "--policy.device=cpu"]
        flags += [f"--output_dir={run}", f"--batch_size={BATCH // processes}", f"--steps={steps}", "--num_workers=0"]
        flags += [f"--log_freq={steps // 2}", f"--save_freq={steps}", "--policy.preset=tiny", "--method=ptr"]
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={processes}", "--standalone"]
        command += ["-m", "ptr_robot.cli.main", "train", *flags]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        from ptr_robot.train.records import read_records

        rates[processes] = read_records(run)[-1]["steps_per_second"]
        print(f"  {processes}: {rates[processes]:.2f} steps/s = {rates[processes] / rates[1]:.2f}x", flush=True)


def count_operations(name: str, batch_size: int = 8, views: int = 2) -> None:
    """FLOPs of one forward and backward pass.

    The policy and the target encoder run on the meta device. PTR itself looks at values, so it runs for real on random
    features of the right widths. The byte tokenizer stands in for Qwen's, which is not part of the package.
    """
    config = preset(name)
    config = dataclasses.replace(config, language=dataclasses.replace(config.language, tokenizer="bytes"))
    with torch.device("meta"):
        policy = MixturePolicy(config).train()
    plain = policy_operations(policy, batch_size * CHUNKS, views, with_features=False)
    print(f"  sft  {plain / 1e9:,.0f} GFLOP")
    with_belief = policy_operations(policy, batch_size * CHUNKS, views, with_features=True)
    encoder = encoder_operations(policy, batch_size * CHUNKS * views)
    heads = ptr_operations(policy, batch_size)
    total = with_belief + encoder + heads
    parts = {"policy with belief": with_belief, "target encoder": encoder, "tokenizer and scorer": heads}
    shares = ", ".join(f"{part} {count / plain:.4f}" for part, count in parts.items())
    print(f"  ptr  {total / 1e9:,.0f} GFLOP = {total / plain:.3f}x SFT ({shares})", flush=True)


def policy_operations(
    policy: MixturePolicy, count: int, views: int, *, with_features: bool, with_belief: bool = True
) -> int:
    """One pass over ``count`` chunks; with features, by segments, and on every path that the scorer's loss takes."""
    size = policy.config.vision.image_size
    count = count // CHUNKS if with_features else count
    with torch.device("meta"):
        flags = torch.ones(count, 200, dtype=torch.bool)
        images = torch.zeros(count, views, 3, size, size, dtype=torch.uint8)
        view_mask = torch.ones(count, views, dtype=torch.bool)
        text = ("put the bottle into the box on the left side of the table",) * count
        observation = Observation(images, view_mask, torch.zeros(count, 200), flags, flags, text)
        length = policy.config.chunk_length
        chunk = ActionChunk(torch.zeros(count, length, 200), action_is_pad=torch.zeros(count, length, dtype=torch.bool))
        belief = torch.zeros(count, policy.config.num_belief_tokens, policy.sizes.action_dim)
        belief = belief if with_features and with_belief else None
        noise = Noise(torch.zeros(count, dtype=torch.int64))
    with FlopCounterMode(display=False) as counter:
        if with_features:
            parts = [TrainingChunk(observation, chunk, noise)] * CHUNKS
            step = policy.forward_segments(parts)
            passes = [step(index, belief) for index in range(CHUNKS)]
        else:
            passes = [policy.forward_chunk(observation, chunk, noise=noise)]
        sum(_total(forward, with_features=with_features) for forward in passes).backward()
    return counter.get_total_flops()


def _total(forward: ChunkForward, *, with_features: bool) -> torch.Tensor:
    losses = forward.action_losses.sum()
    if not with_features:
        return losses
    return losses + forward.contexts.sum() + forward.action_tokens.sum() + forward.action_states.sum()


def encoder_operations(policy: MixturePolicy, num_images: int) -> int:
    """The cut copy of the tower over one future frame a chunk and view."""
    size = policy.config.vision.image_size
    encoder = EMATargetEncoder(policy.vision_tower, num_prefix_tokens=policy.num_prefix_tokens)
    with FlopCounterMode(display=False) as counter:
        encoder(torch.zeros(num_images, 1, 3, size, size, dtype=torch.uint8, device="meta"))
    return counter.get_total_flops()


def ptr_operations(policy: MixturePolicy, batch_size: int) -> int:
    """Tokenizer, scorer, candidates with a full queue, and their backward pass."""
    sizes, count = policy.sizes, batch_size * CHUNKS
    width = policy.vision.tower.width
    ptr = PTR(
        context_dim=sizes.context_dim,
        action_dim=sizes.action_dim,
        target_dim=width,
        action_state_dim=sizes.action_state_dim,
    )
    samples = Samples(torch.randn(count, width), torch.ones(count, dtype=torch.bool), torch.arange(count))

    def step(_index: int, _belief: torch.Tensor | None) -> ChunkForward:
        rows = torch.randn(batch_size, requires_grad=True), torch.randn(batch_size, sizes.context_dim)
        tokens = torch.randn(batch_size, sizes.chunk_length, sizes.action_dim, requires_grad=True)
        states = torch.randn(batch_size, sizes.chunk_length, sizes.action_state_dim, requires_grad=True)
        return ChunkForward(rows[0], rows[1].requires_grad_(), tokens, states)

    while not ptr.pool.queue.filled.all():
        ptr.segment(step, samples, num_chunks=CHUNKS)
        ptr.update()
        samples = dataclasses.replace(samples, sample_ids=samples.sample_ids + count)
    with FlopCounterMode(display=False) as counter:
        ptr.segment(step, samples, num_chunks=CHUNKS).loss.backward()
    return counter.get_total_flops()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="steps of each method that are timed")
    parser.add_argument("--skip_processes", action="store_true", help="leave out two processes against one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = record(Path(folder) / "set")
        step_times(root, options.rounds)
        recursion_times(options.rounds)
        memory(root)
        if not options.skip_processes:
            two_processes(root, Path(folder), steps=20)
    for name in ("being-h05", "tiny"):
        print(f"operations of one step of `{name}`: batch 8 x 4 chunks, 2 views")
        count_operations(name)


if __name__ == "__main__":
    main()
