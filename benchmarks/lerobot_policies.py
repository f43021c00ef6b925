"""What PTR costs inside LeRobot's policies, as ratios to each base policy in one run.

    PYTHONPATH=. python benchmarks/lerobot_policies.py

Times: LeRobot's own training step (``update_policy``: forward, backward, clipping, AdamW, EMA) of small policies on
random data, base policy and PTR taken in turn, and SmolVLA with LeRobot's RA-BC weighting as a third; one thread,
processor time, the fastest step counted, since other work on the machine only ever adds. The dataset's part (PTR reads
one more frame a sample) is not in it. Operations: floating-point operations (matrix products, convolutions, attention)
of a forward and backward pass, for the same small sizes and for the sizes that LeRobot trains by default; the policies
and the target encoder run on the meta device, PTR itself, which looks at values, runs for real on random features. At
the small size the base policy's step is counted both ways, and the benchmark ends in an error where the two differ.

LeRobot has no policy like ptr_vla without PTR: its base is the same network on the same chunks with PTR switched off.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import torch
from accelerate import Accelerator
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.factory import get_policy_class, make_policy_config
from lerobot.scripts.lerobot_train import update_policy
from lerobot.utils.logging_utils import AverageMeter, MetricsTracker
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.smolvlm.modeling_smolvlm import SmolVLMVisionEmbeddings

from ptr_robot.data.lerobot.compat import is_lerobot06
from ptr_robot.lerobot import configuration_ptr  # noqa: F401  (registers the types)
from ptr_robot.lerobot.window import Window
from ptr_robot.method import PTR, BeliefConfig, ChunkForward, PTROutput, Samples, ScorerConfig, WeightConfig
from tests.lerobot.tiny_smolvlm import write_tiny_smolvlm

BATCH, STATE_DIM, ACTION_DIM, WORDS = 8, 14, 14, 12
CAMERAS = ("observation.images.top", "observation.images.wrist")
OFF = {"belief": BeliefConfig(enabled=False), "scorer": ScorerConfig(enabled=False), "num_chunks": 2}


@dataclass(frozen=True)
class Size:
    """A policy of one size."""

    pixels: tuple[int, int]  # height and width of each camera's images
    flags: dict[str, Any] = field(default_factory=dict)  # of the base policy; the others are LeRobot's defaults
    target_pixels: int = 256  # --policy.ptr.target_pixels
    scorer: ScorerConfig = field(default_factory=ScorerConfig)  # --policy.ptr.scorer.*
    text: dict[str, Any] = field(default_factory=dict)  # of SmolVLA's language model
    vision: dict[str, Any] = field(default_factory=dict)  # of its vision tower
    pixel_shuffle: int = 4


# A quarter or less of each width, and fewer layers; images and targets in the proportions of the full size.
SMALL = {
    "act": Size(
        (120, 160),
        {"dim_model": 128, "n_heads": 4, "dim_feedforward": 800, "chunk_size": 25, "n_action_steps": 25},
        target_pixels=64,
    ),
    "diffusion": Size((96, 96), {"down_dims": (64, 128, 256), "crop_shape": (84, 84)}),
    "smolvla": Size(
        (128, 128),
        {"resize_imgs_with_padding": (128, 128), "num_vlm_layers": 4},
        target_pixels=64,
        text={"hidden_size": 240, "intermediate_size": 640, "num_attention_heads": 15, "num_key_value_heads": 5}
        | {"head_dim": 16, "num_hidden_layers": 4, "vocab_size": 512},
        vision={"hidden_size": 192, "intermediate_size": 768, "num_attention_heads": 3, "num_hidden_layers": 6}
        | {"image_size": 128, "patch_size": 16},
    ),
    "vla": Size((64, 64)),
}
# LeRobot's defaults. SmolVLM2-500M: SigLIP base (patches of 16 in 512 pixels), SmolLM2-360M, 64 tokens an image.
FULL = {
    "act": Size((480, 640)),
    "diffusion": Size((96, 96), {"crop_shape": (84, 84)}),
    "smolvla": Size(
        (480, 640),
        text={"hidden_size": 960, "intermediate_size": 2560, "num_attention_heads": 15, "num_key_value_heads": 5}
        | {"head_dim": 64, "num_hidden_layers": 32, "vocab_size": 49280},
        vision={"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12}
        | {"image_size": 512, "patch_size": 16},
    ),
}


def make_policy(name: str, size: Size, folder: Path, *, has_ptr: bool) -> Any:
    """A policy with random weights; ``vla`` without PTR is ``ptr_vla`` with everything of it switched off."""
    image = PolicyFeature(FeatureType.VISUAL, (3, *size.pixels))
    inputs = {"observation.state": PolicyFeature(FeatureType.STATE, (STATE_DIM,))} | dict.fromkeys(CAMERAS, image)
    outputs = {"action": PolicyFeature(FeatureType.ACTION, (ACTION_DIM,))}
    options = size.flags | {"input_features": inputs, "output_features": outputs, "device": "cpu"}
    if name == "act":
        options |= {"pretrained_backbone_weights": None}
    if name == "smolvla":
        text = size.text | {"model_type": "llama"}
        vlm = write_tiny_smolvlm(folder / f"vlm_{size.pixels[0]}", text, size.vision, size.pixel_shuffle)
        options |= {"vlm_model_name": str(vlm), "load_vlm_weights": False}
    kind = f"ptr_{name}" if has_ptr or name == "vla" else name
    config = make_policy_config(kind, **options)
    if kind.startswith("ptr_"):
        changes: dict[str, Any] = {"weights": WeightConfig(warmup_steps=0), "scorer": size.scorer}
        changes |= {"target_pixels": size.target_pixels}
        changes |= {} if has_ptr else OFF | {"weights": WeightConfig(alpha=0.0)}
        config.ptr = dataclasses.replace(config.ptr, **changes)
    torch.manual_seed(0)
    return get_policy_class(kind)(config).train()


def make_batch(policy: Any, device: str = "cpu") -> dict[str, Any]:
    """What ``lerobot-train`` hands to this policy, of random numbers."""
    config = policy.config
    frames = config.observation_delta_indices
    history = [] if frames is None else [len(frames)]
    steps = len(config.action_delta_indices)
    batch = {
        "observation.state": torch.randn(BATCH, *history, STATE_DIM),
        "action": torch.randn(BATCH, steps, ACTION_DIM),
        "action_is_pad": torch.zeros(BATCH, steps, dtype=torch.bool),
        "index": torch.arange(BATCH) * 10,
        "episode_index": torch.arange(BATCH),
        "task_index": torch.zeros(BATCH, dtype=torch.int64),
        "observation.language.tokens": torch.full((BATCH, WORDS), 9),
        "observation.language.attention_mask": torch.ones(BATCH, WORDS, dtype=torch.bool),
        "observation.state_is_pad": torch.zeros(BATCH, *history, dtype=torch.bool),
    }
    batch |= {key: torch.rand(BATCH, *history, 3, *config.input_features[key].shape[1:]) for key in CAMERAS}
    return {key: value.to(device) for key, value in batch.items()} | {"task": ["put the cup on the plate"] * BATCH}


def rabc_weighter(folder: Path, chunk_size: int) -> Any:
    """LeRobot's RA-BC weights over progress that rises evenly; it takes policies with a loss of each sample."""
    if is_lerobot06():
        from lerobot.rewards.sarm.rabc import RABCWeights
    else:
        from lerobot.utils.rabc import RABCWeights
    rows = pd.DataFrame({"index": range(1000), "episode_index": [i // 100 for i in range(1000)]})
    rows["progress_sparse"] = rows["index"] % 100 / 100
    file = folder / "sarm_progress.parquet"
    rows.to_parquet(file)
    return RABCWeights(file, chunk_size=chunk_size, device=torch.device("cpu"))


def training_step(policy: Any, weighter: Any = None) -> Callable[[], None]:
    """One step of LeRobot's training loop on one batch."""
    accelerator, batch, config = Accelerator(cpu=True), make_batch(policy), policy.config
    optimizer = config.get_optimizer_preset().build(policy.get_optim_params())
    meters = {name: AverageMeter(name) for name in ("loss", "grad_norm", "lr", "update_s")}
    metrics = MetricsTracker(BATCH, 1000, 10, meters)
    weighting = (
        {} if weighter is None else {("sample_weighter" if is_lerobot06() else "rabc_weights_provider"): weighter}
    )

    def step() -> None:
        update_policy(metrics, policy, dict(batch), optimizer, 10.0, accelerator, **weighting)

    return step


def time_steps(name: str, folder: Path, rounds: int) -> str:
    """The row of one policy in the table of times."""
    size = SMALL[name]
    base = make_policy(name, size, folder, has_ptr=False)
    steps = {"base": training_step(base), "ptr": training_step(make_policy(name, size, folder, has_ptr=True))}
    if name == "smolvla":
        weighter = rabc_weighter(folder, base.config.chunk_size)
        steps["rabc"] = training_step(make_policy(name, size, folder, has_ptr=False), weighter)
    seconds: dict[str, list[float]] = {way: [] for way in steps}
    for _ in range(rounds + 2):  # the first two allocate
        for way, step in steps.items():
            started = time.process_time()
            step()
            seconds[way].append(time.process_time() - started)
    fastest = {way: min(values[2:]) for way, values in seconds.items()}
    cells = [f"{1000 * fastest['base']:.0f} ms", f"{1000 * fastest['ptr']:.0f} ms"]
    cells += [f"{fastest[way] / fastest['base']:.2f}" if way in fastest else "-" for way in ("ptr", "rabc")]
    return " | ".join(cells)


def flops(run: Callable[[], Any]) -> int:
    """Counted operations; the fused attention of CPUs is none that torch counts, so it is taken apart."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@contextmanager
def without_values() -> Iterator[None]:
    """Let policies run on the meta device, where tensors have shapes alone: what asks for values is given zeros.

    Policies log their loss, and SmolVLM looks up which patch lies where; neither is an operation that is counted.
    """

    def embed(module: SmolVLMVisionEmbeddings, pixel_values: Tensor, **_options: Any) -> Tensor:
        patches = module.patch_embedding(pixel_values).flatten(2).transpose(1, 2)
        places = torch.zeros(patches.shape[:2], dtype=torch.int64, device=patches.device)
        return patches + module.position_embedding(places)

    with ExitStack() as stack:
        stack.enter_context(patch.object(Tensor, "item", lambda _tensor: 0))
        stack.enter_context(patch.object(SmolVLMVisionEmbeddings, "forward", embed))
        yield


def on_meta(name: str, size: Size, folder: Path, *, has_ptr: bool) -> Any:
    """A policy without memory for its parameters."""
    with torch.device("meta"), without_values():
        return make_policy(name, size, folder, has_ptr=has_ptr).to("meta")


def count_base(name: str, size: Size, folder: Path) -> int:
    """Forward and backward of the base policy."""
    policy = on_meta(name, size, folder, has_ptr=False)
    batch = make_batch(policy, "meta")
    with without_values():
        if name != "vla":
            return flops(lambda: policy(batch)[0].backward())
        chunks = Window.of(batch, policy._layout).chunks
        return flops(lambda: sum(policy._forward_chunk(chunk, None).action_losses.sum() for chunk in chunks).backward())


def count_ptr(name: str, size: Size, folder: Path) -> dict[str, int]:
    """The parts of a step with PTR."""
    policy = on_meta(name, size, folder, has_ptr=True)
    window = Window.of(make_batch(policy, "meta"), policy._layout)
    belief = policy.config.ptr.belief
    tokens = torch.zeros(BATCH, belief.num_tokens, policy._tap_sizes().action, device="meta")

    def train() -> None:
        forwards = [policy._forward_chunk(chunk, tokens if belief.enabled else None) for chunk in window.chunks]
        total(ChunkForward.stack(forwards)).backward()

    with without_values(), torch.no_grad():
        encoder = flops(lambda: [policy._features(frame) for frame in window.frames[1:]])
    with without_values():
        return {"policy": flops(train), "target encoder": encoder, "heads": count_heads(policy, len(window.chunks))}


def total(forward: ChunkForward) -> Tensor:
    """A scalar on every path that PTR's losses take."""
    parts = (forward.action_losses, forward.contexts, forward.action_tokens, forward.action_states)
    return torch.stack([part.sum() for part in parts if part is not None]).sum()


def count_heads(policy: Any, num_chunks: int) -> int:
    """Scorer, candidates from a full queue, belief tokenizer, and their backward pass."""
    widths, count = policy.ptr.method.widths, BATCH * num_chunks
    method = PTR(
        policy.config.ptr,
        context_dim=widths.context,
        action_dim=widths.action,
        action_state_dim=widths.action_state,
        target_dim=widths.target,
        state_dim=widths.state,
    )
    learns = any(p.requires_grad for p in policy._vision_tower().parameters())  # otherwise h_t is a constant
    length = policy._layout.chunk_length

    def chunk(samples: int) -> ChunkForward:
        return ChunkForward(
            action_losses=torch.rand(samples, requires_grad=True),
            contexts=torch.randn(samples, widths.context, requires_grad=learns),
            action_tokens=torch.randn(samples, length, widths.action, requires_grad=True),
            action_states=torch.randn(samples, length, widths.action_state, requires_grad=True),
        )

    def run(number: int) -> PTROutput:
        samples = Samples(
            targets=torch.randn(count, widths.target),
            has_target=torch.ones(count, dtype=torch.bool),
            sample_ids=torch.arange(count) + number * count,
            states=torch.randn(count, widths.state),
        )
        if method.belief is not None:
            return method.segment(lambda _number, _belief: chunk(BATCH), samples, num_chunks=num_chunks)
        output: PTROutput = method(chunk(count), samples)
        return output

    with patch.object(Tensor, "item", ITEM):
        number = 0
        while not bool(method.pool.queue.filled.all()):
            run(number)
            method.update()
            number += 1
        return flops(lambda: run(number).loss.backward())


ITEM = Tensor.item


def count_row(name: str, size: Size, folder: Path) -> str:
    """The row of one policy in the table of operations."""
    base, parts = count_base(name, size, folder), count_ptr(name, size, folder)
    shares = " | ".join(f"{count / base:.3f}" for count in parts.values())
    return f"{base / BATCH / 1e9:.1f} GFLOP | {sum(parts.values()) / base:.3f} | {shares}"


def check_count(name: str, folder: Path) -> None:
    """Whether the meta device gives what a base policy's pass on real numbers has."""
    policy = make_policy(name, SMALL[name], folder, has_ptr=False)
    batch = make_batch(policy)
    counted, real = count_base(name, SMALL[name], folder), flops(lambda: policy(batch)[0].backward())
    if counted != real:
        raise SystemExit(f"{name}: {counted} operations on the meta device, {real} on real numbers")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="steps of each policy that are timed")
    parser.add_argument("--policies", nargs="+", default=list(SMALL), choices=list(SMALL))
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"one training step of small policies, batch {BATCH}, two cameras, fastest of {options.rounds}")
        print("policy | base | with PTR | PTR/base | RA-BC/base")
        for policy in options.policies:
            print(f"ptr_{policy} | {time_steps(policy, folder, options.rounds)}", flush=True)
        for title, sizes in (("small", SMALL), ("full", FULL)):
            print(f"operations of a training step a sample, {title} size")
            print("policy | base | PTR/base | policy | target encoder | heads")
            for policy in (policy for policy in options.policies if policy in sizes):
                check_count(policy, folder)
                print(f"ptr_{policy} | {count_row(policy, sizes[policy], folder)}", flush=True)
                if policy == "act":  # whose encoder runs twice, with gradients unless the scorer's heads learn alone
                    detached = dataclasses.replace(sizes[policy], scorer=ScorerConfig(detach_features=True))
                    print(f"ptr_{policy}, detach_features | {count_row(policy, detached, folder)}", flush=True)


if __name__ == "__main__":
    main()
