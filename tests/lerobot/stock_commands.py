"""LeRobot's own commands, in this process or in one of their own."""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SMALL_ACT = (
    "--policy.type=ptr_act",
    "--policy.chunk_size=6",
    "--policy.n_action_steps=6",
    "--policy.dim_model=16",
    "--policy.n_heads=2",
    "--policy.dim_feedforward=32",
    "--policy.n_encoder_layers=1",
    "--policy.n_vae_encoder_layers=1",
    "--policy.latent_dim=4",
    "--policy.pretrained_backbone_weights=null",
)
SMALL_DIFFUSION = (
    "--policy.type=ptr_diffusion",
    "--policy.horizon=8",
    "--policy.n_action_steps=4",
    "--policy.down_dims=[8,16]",
    "--policy.n_groups=4",
    "--policy.diffusion_step_embed_dim=8",
    "--policy.spatial_softmax_num_keypoints=4",
    "--policy.num_train_timesteps=10",
    "--policy.crop_shape=[40,40]",
)
SMALL_SMOLVLA = (
    "--policy.type=ptr_smolvla",
    "--policy.chunk_size=6",
    "--policy.n_action_steps=6",
    "--policy.max_state_dim=8",
    "--policy.max_action_dim=4",
    "--policy.resize_imgs_with_padding=[32,32]",
    "--policy.num_vlm_layers=2",
    "--policy.num_steps=2",
)
SMALL_PI = (
    "--policy.chunk_size=6",
    "--policy.n_action_steps=6",
    "--policy.max_state_dim=8",
    "--policy.max_action_dim=4",
    "--policy.image_resolution=[28,28]",
    "--policy.num_inference_steps=2",
    "--policy.tokenizer_max_length=24",
)
SMALL_PTR = ("--policy.ptr.weights.warmup_steps=1", "--policy.ptr.scorer.hidden_dim=16")
EVERY_RUN = (
    "--policy.device=cpu",
    "--policy.push_to_hub=false",
    "--num_workers=0",
    "--log_freq=1",
    "--batch_size=4",
    "--seed=1",
)


def train_flags(dataset: Path, output: Path, *flags: str, steps: int = 2) -> list[str]:
    """Flags of a short training run."""
    given = [f"--dataset.repo_id=owner/{dataset.name}", f"--dataset.root={dataset}", f"--output_dir={output}"]
    return [*given, f"--steps={steps}", "--save_freq=1", *EVERY_RUN, *flags]


@functools.cache
def _source(owner: Any) -> str:
    """For its help texts draccus asks for the source of each class once a field, which takes longer than training."""
    return inspect.getsource(owner)


def read_sources_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let draccus have each class's source from memory."""
    from draccus.wrappers import docstring

    monkeypatch.setattr(docstring, "inspect", SimpleNamespace(**vars(inspect) | {"getsource": _source}))


def train(monkeypatch: pytest.MonkeyPatch, flags: list[str]) -> None:
    """``lerobot-train`` with these flags; its ``main`` also looks for plug-ins."""
    from lerobot.scripts import lerobot_train

    read_sources_once(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["lerobot-train", *flags])
    lerobot_train.main()


def load(checkpoint: Path) -> Any:
    """The policy that a checkpoint holds, as LeRobot loads it."""
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.factory import get_policy_class

    config = PreTrainedConfig.from_pretrained(checkpoint)
    return get_policy_class(config.type).from_pretrained(checkpoint, config=config)
