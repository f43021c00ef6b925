"""What Being-H0.5 costs: at its published size by count, and at inference by the clock.

    python benchmarks/being_h.py [--checkpoint=FOLDER]

At the published size, on the meta device: parameters; operations of one training step (forward and backward: matrix
products, convolutions, attention) of SFT and PTR; memory of a step by what is stored: weights, gradients, AdamW, EMA
tower, and the activations that autograd keeps, in bfloat16. Nothing runs on a GPU. Words stand in for Qwen's tokens.

Inference, on the preset `small` and, where given, on a checkpoint in the released layout: a chunk with the context
encoded once, against the whole sequence run anew at each of the four steps, in turn, the fastest of several counted.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from train import CHUNKS, encoder_operations, policy_operations, ptr_operations

from ptr_robot.method import EMATargetEncoder
from ptr_robot.policy.being_h.adapters import add_adapters
from ptr_robot.policy.being_h.config import LoraConfig
from ptr_robot.policy.being_h.load import build_empty, load_released
from ptr_robot.policy.being_h.policy import BeingHPolicy
from ptr_robot.policy.being_h.sizes import published_size
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation
from ptr_robot.policy.vla.policy import MixturePolicy
from ptr_robot.policy.vla.presets import preset

TASK = "put the bottle into the box on the left side of the table"
VIEWS = 2
GIGA = 1e9
GPUS = (1, 2, 8)


class WordTokenizer:
    """One id a word, mark or special token: about as many as Qwen's tokenizer gives for plain English."""

    def encode(self, text: str) -> list[int]:
        return list(range(len(re.findall(r"\w+|[^\w\s]|\n", text))))

    def save(self, folder: Path) -> None:
        """Nothing to write."""


def empty_policy(*, checkpoint_activations: bool) -> BeingHPolicy:
    policy = build_empty(published_size("words", checkpoint_activations=checkpoint_activations)).to("meta").train()
    policy.text.tokenizer = WordTokenizer()
    policy.text._special = lambda text: len(text)
    return policy


def count_parameters(policy: BeingHPolicy) -> None:
    parts = {
        "vision tower": policy.vision.tower,
        "connector": policy.vision.connector,
        "language stream": policy.trunk.und,
        "action stream": policy.trunk.gen,
        "state, action head": torch.nn.ModuleList([policy.state_embedder, policy.head]),
    }
    print("parameters at the published size")
    for name, part in parts.items():
        print(f"  {name:18s} {_count(part) / 1e6:8.1f} M")
    language_head = policy.config.language.vocabulary_size * policy.config.trunk.context.width
    print(
        f"  {'in all':18s} {_count(policy) / 1e6:8.1f} M, and {language_head / 1e6:.1f} M of the unused language head"
    )


def count_operations(batch_size: int = 8) -> None:
    """SFT's operations, and what each part of PTR adds to them as a share of SFT's."""
    heads = ptr_operations(empty_policy(checkpoint_activations=False), batch_size)
    print(f"operations of a step of {batch_size} x {CHUNKS} chunks; of PTR, each part as a share of SFT's")
    for has_lora in (False, True):
        for views in (1, VIEWS):
            for is_checkpointed in (True, False):
                policy = empty_policy(checkpoint_activations=is_checkpointed)
                if has_lora:
                    add_adapters(policy, LoraConfig(rank=16))
                    policy.to("meta")
                what = "LoRA of rank 16" if has_lora else "every weight trained"
                how = "recomputed" if is_checkpointed else "kept"
                print(f"  {what}, {views} view{'s' * (views > 1)}, activations {how}")
                count_parts(policy, batch_size, views, heads)


def count_parts(policy: BeingHPolicy, batch_size: int, views: int, heads: int) -> None:
    count = batch_size * CHUNKS
    plain = policy_operations(policy, count, views, with_features=False)
    segments = policy_operations(policy, count, views, with_features=True, with_belief=False)
    believing = policy_operations(policy, count, views, with_features=True)
    parts = {
        "target encoder": encoder_operations(policy, count * views),
        "belief tokens": believing - segments,
        "segments, gradients of h and E": segments - plain,
        "tokenizer, scorer, candidates": heads,
    }
    total = plain + sum(parts.values())
    shares = ", ".join(f"{name} {value / plain:+.4f}" for name, value in parts.items())
    print(f"    SFT {plain / 1e12:.1f} TFLOP, PTR {total / 1e12:.1f} = {total / plain:.3f} ({shares})", flush=True)


def count_memory() -> None:
    """Bytes by what is stored; activations are what one chunk of one segment leaves for the backward pass."""
    policy = empty_policy(checkpoint_activations=False)
    trained = sum(p.numel() for p in policy.parameters() if p.requires_grad)
    encoder = EMATargetEncoder(policy.vision_tower, num_prefix_tokens=policy.num_prefix_tokens)
    ema = sum(p.numel() for p in encoder.parameters())
    layer = max(_count(layer) for layer in policy.trunk.layers)
    kept, recomputed = (activation_bytes(checkpointed) for checkpointed in (False, True))
    weights, states = 4 * _count(policy) / GIGA, (4 + 8) * trained / GIGA
    print("memory of a step in GB, by count (float32 weights, gradients and AdamW; bfloat16 activations)")
    print(f"  weights {weights:.1f}, gradients and AdamW {states:.1f}, EMA tower {4 * ema / GIGA:.2f}")
    print(f"  activations of a chunk: {kept / GIGA:.2f} kept, {recomputed / GIGA:.2f} recomputed")
    add_adapters(policy, LoraConfig(rank=16))
    updates = sum(p.numel() for p in policy.parameters() if p.requires_grad)
    print(f"  LoRA of rank 16 trains {updates / 1e6:.1f} M: gradients and AdamW {12 * updates / GIGA:.1f}")
    for gpus in GPUS:
        shared = (weights + states + 4 * ema / GIGA) / gpus
        whole = shared + (4 * layer / GIGA if gpus > 1 else 0)
        gathered = shared + (weights * (1 - 1 / gpus))
        print(f"  {gpus} GPU: SFT {whole:.1f}, with belief tokens {gathered:.1f}, before activations", flush=True)


def activation_bytes(is_checkpointed: bool) -> int:
    """What autograd saves in one training pass over one chunk, parameters and their views apart."""
    policy = empty_policy(checkpoint_activations=is_checkpointed).to(torch.bfloat16)
    own = {id(parameter.untyped_storage()) for parameter in policy.parameters()}
    saved: dict[int, tuple[int, Any]] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if not isinstance(tensor, torch.nn.Parameter) and id(storage) not in own:
            saved[storage._cdata] = (storage.nbytes(), storage)
        return tensor

    def keep_inputs(_: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        for tensor in (leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)):
            pack(tensor)

    if is_checkpointed:  # what recomputation starts from is held outside of autograd's own store
        for unit in policy.sharded_units:
            unit.register_forward_pre_hook(keep_inputs)
    with torch.device("meta"):
        observation, chunk = _inputs(policy, 1), _chunk(policy, 1)
        noise = Noise(torch.zeros(1, dtype=torch.int64))
    images, states = observation.images.bfloat16(), observation.states.bfloat16()
    observation = dataclasses.replace(observation, images=images, states=states)
    policy.head.embedder.register_forward_pre_hook(lambda _, inputs: (inputs[0].bfloat16(), *inputs[1:]))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        policy.forward_chunk(observation, chunk, noise=noise)
    return sum(size for size, _ in saved.values())


def time_inference(name: str, policy: MixturePolicy, rounds: int) -> None:
    """Seconds of a chunk with and without the context's keys and values kept."""
    policy = policy.eval()
    observation, noise = _inputs(policy, 1), Noise(torch.zeros(1, dtype=torch.int64))
    ways: dict[str, Callable[[], Any]] = {
        "context once": lambda: policy.predict(observation, noise=noise).actions,
        "whole sequence at each step": lambda: whole_sequence(policy, observation, noise),
    }
    torch.testing.assert_close(ways["context once"](), ways["whole sequence at each step"](), rtol=1e-3, atol=1e-4)
    fastest = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for way, run in ways.items():
            started = time.process_time()
            run()
            fastest[way] = min(fastest[way], time.process_time() - started)
    print(
        f"inference of `{name}`, one observation, {policy.config.flow.num_sampling_steps} Euler steps, processor time"
    )
    for way, seconds in fastest.items():
        print(f"  {way:28s} {seconds * 1000:7.1f} ms = {seconds / fastest['context once']:.2f}x", flush=True)


@torch.no_grad()
def whole_sequence(policy: MixturePolicy, observation: Observation, noise: Noise) -> Tensor:
    """Sampling as code without a cache does it: tower, context and actions anew at each step."""

    class Anew:
        def states(self, tokens: Tensor) -> Tensor:
            context = policy.sampling_context(observation)
            mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
            return policy.joint_pass(context, tokens, mask)[1]

        def extend(self, tokens: Tensor) -> Tensor:
            raise NotImplementedError

    return policy.head.sample(Anew(), observation.action_mask, policy.config.chunk_length, noise).actions


def _inputs(policy: MixturePolicy, count: int) -> Observation:
    size = policy.config.vision.image_size
    flags = torch.ones(count, 200, dtype=torch.bool)
    images = torch.zeros(count, VIEWS, 3, size, size, dtype=torch.uint8)
    views = torch.ones(count, VIEWS, dtype=torch.bool)
    return Observation(images, views, torch.zeros(count, 200), flags, flags, (TASK,) * count)


def _chunk(policy: MixturePolicy, count: int) -> ActionChunk:
    length = policy.config.chunk_length
    return ActionChunk(torch.zeros(count, length, 200), action_is_pad=torch.zeros(count, length, dtype=torch.bool))


def _count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, help="a folder in the released layout, to time its inference")
    parser.add_argument("--rounds", type=int, default=5, help="chunks of each way that are timed")
    options = parser.parse_args()
    count_parameters(empty_policy(checkpoint_activations=False))
    count_operations()
    count_memory()
    time_inference("small", MixturePolicy(preset("small")), options.rounds)
    if options.checkpoint:
        time_inference(options.checkpoint.name, load_released(options.checkpoint).policy, options.rounds)


if __name__ == "__main__":
    main()
