"""A small policy of each type beside its base policy, and batches as ``lerobot-train`` makes them."""

from __future__ import annotations

import atexit
import copy
import dataclasses
import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torchvision
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.factory import get_policy_class, make_policy_config

from ptr_robot.data.lerobot.compat import is_lerobot06
from ptr_robot.lerobot import configuration_ptr, configuration_ptr_pi  # noqa: F401  (register the types)
from ptr_robot.lerobot.settings import PTRSettings
from ptr_robot.method import BeliefConfig, ScorerConfig, WeightConfig
from tests.lerobot.tiny_paligemma import IMAGE_SIZE, shrink_pi
from tests.lerobot.tiny_smolvlm import WORDS, write_tiny_smolvlm


def _resnet10(weights: None = None, **options: Any) -> torchvision.models.ResNet:
    """LeRobot looks its backbones up in torchvision by name; the smallest one there has 11 million parameters."""
    return torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], **options)


torchvision.models.resnet10 = _resnet10

STATE, ACTION, CAMERA, SIDE = "observation.state", "action", "observation.images.top", "observation.images.side"
STATE_DIM, ACTION_DIM, PIXELS, BATCH = 5, 3, 48, 4
ACT_SIZES = {
    "chunk_size": 6,
    "n_action_steps": 6,
    "dim_model": 16,
    "n_heads": 2,
    "dim_feedforward": 32,
    "n_encoder_layers": 1,
    "n_vae_encoder_layers": 1,
    "latent_dim": 4,
    "vision_backbone": "resnet10",
    "pretrained_backbone_weights": None,
}
DIFFUSION_SIZES = {
    "n_obs_steps": 2,
    "horizon": 8,
    "n_action_steps": 4,
    "down_dims": (8, 16),
    "n_groups": 4,
    "diffusion_step_embed_dim": 8,
    "spatial_softmax_num_keypoints": 4,
    "num_train_timesteps": 10,
    "num_inference_steps": 2,
    "vision_backbone": "resnet10",
    "crop_shape": (40, 40),
    "do_mask_loss_for_padding": True,
}
SMOLVLA_SIZES = {
    "chunk_size": 6,
    "n_action_steps": 6,
    "max_state_dim": 8,
    "max_action_dim": 4,
    "resize_imgs_with_padding": (32, 32),
    "num_vlm_layers": 2,
    "num_steps": 2,
    "load_vlm_weights": False,
}
PI_SIZES = {
    "chunk_size": 6,
    "n_action_steps": 6,
    "max_state_dim": 8,
    "max_action_dim": 4,
    "image_resolution": (IMAGE_SIZE, IMAGE_SIZE),
    "num_inference_steps": 2,
}


@dataclass(frozen=True)
class Kind:
    """How to make one type."""

    type: str
    base: str | None  # None: LeRobot has no such policy without PTR
    sizes: dict[str, Any]
    chunk_length: int
    vision_block: str  # after which the EMA copy ends
    dropped: str  # a part of the tower that it must not hold
    history: int = 1
    sees_padding: bool = False  # the network itself looks at padded actions, which its loss does not count
    base_masks_padding: bool = True
    needs_vlm: bool = False
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)  # of PTR's settings


ACT = Kind("ptr_act", "act", ACT_SIZES, 6, "layer3", "layer4")
ACT_NO_VAE = Kind("ptr_act", "act", ACT_SIZES | {"use_vae": False}, 6, "layer3", "layer4")
DIFFUSION = Kind("ptr_diffusion", "diffusion", DIFFUSION_SIZES, 8, "6", "7.", history=2, sees_padding=True)
SMOLVLA = Kind(
    "ptr_smolvla",
    "smolvla",
    SMOLVLA_SIZES,
    6,
    "encoder.layers.1",
    "layers.2",
    base_masks_padding=is_lerobot06(),
    needs_vlm=True,
)
BELIEVING_SMOLVLA = dataclasses.replace(SMOLVLA, changes={"belief": BeliefConfig(num_tokens=2)})
VLA = Kind("ptr_vla", None, {"chunk_size": 6, "n_action_steps": 6}, 6, "model.blocks.1", "blocks.2")
PI0 = Kind(
    "ptr_pi0",
    "pi0",
    PI_SIZES,
    6,
    "vision_model.encoder.layers.1",
    "layers.2",
    sees_padding=True,
    base_masks_padding=False,
)
PI05 = dataclasses.replace(PI0, type="ptr_pi05", base="pi05")
PIS = [PI0, PI05] if is_lerobot06() else []
KINDS = [ACT, ACT_NO_VAE, DIFFUSION, SMOLVLA, *PIS]
NAMES = ["act", "act without VAE", "diffusion", "smolvla", *(kind.base for kind in PIS)]
if PIS:
    shrink_pi()
_MADE: dict[tuple[str, str], Any] = {}


@functools.cache
def tiny_vlm() -> str:
    """The folder of a tiny SmolVLM, for as long as the process runs."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return str(write_tiny_smolvlm(Path(folder.name)))


def features() -> dict[str, dict[str, PolicyFeature]]:
    image = PolicyFeature(FeatureType.VISUAL, (3, PIXELS, PIXELS))
    return {
        "input_features": {
            STATE: PolicyFeature(FeatureType.STATE, (STATE_DIM,)),
            CAMERA: image,
            SIDE: image,
        },
        "output_features": {ACTION: PolicyFeature(FeatureType.ACTION, (ACTION_DIM,))},
    }


def settings(kind: Kind, **changes: Any) -> PTRSettings:
    """PTR's settings for small policies."""
    plain = {"scorer": ScorerConfig(hidden_dim=16), "weights": WeightConfig(warmup_steps=0)}
    default = type(make_policy_config(kind.type, device="cpu").ptr)()
    return dataclasses.replace(default, **(plain | kind.changes | changes))


def make_config(kind: Kind, type: str | None = None, **changes: Any):
    options = kind.sizes | features() | {"device": "cpu"}
    if kind.needs_vlm:
        options["vlm_model_name"] = tiny_vlm()
    if type is None:
        options["ptr"] = settings(kind, **changes)
    return make_policy_config(type or kind.type, **options)


def make_pair(kind: Kind, **changes: Any):
    """The PTR policy and its base policy, of one seed."""
    key = (repr(kind), repr(changes))
    if key not in _MADE:
        torch.manual_seed(0)
        policy = get_policy_class(kind.type)(make_config(kind, **changes))
        torch.manual_seed(0)
        base = get_policy_class(kind.base)(make_config(kind, type=kind.base)) if kind.base else None
        _MADE[key] = policy, base
    policy, base = copy.deepcopy(_MADE[key])
    return policy.train(), base.train() if base is not None else None


def make_batch(kind: Kind, config: Any, *, seed: int = 0, padded: bool = True) -> dict[str, Any]:
    """A normalised batch with every frame that the config asks for; the last sample lies at an episode's end."""
    generator = torch.Generator().manual_seed(seed)
    frames, steps = len(config.observation_delta_indices), len(config.action_delta_indices)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(BATCH, *shape, generator=generator)

    action_is_pad = torch.zeros(BATCH, steps, dtype=torch.bool)
    frame_is_pad = torch.zeros(BATCH, frames, dtype=torch.bool)
    if padded:
        action_is_pad[-1, kind.chunk_length // 2 :] = True
        frame_is_pad[-1, kind.history :] = True
    return {
        STATE: draw(frames, STATE_DIM),
        CAMERA: draw(frames, 3, PIXELS, PIXELS).sigmoid(),
        SIDE: draw(frames, 3, PIXELS, PIXELS).sigmoid(),
        ACTION: draw(steps, ACTION_DIM),
        "action_is_pad": action_is_pad,
        **{f"{key}_is_pad": frame_is_pad for key in (STATE, CAMERA, SIDE)},
        "index": torch.arange(BATCH) * 10,
        "episode_index": torch.arange(BATCH),
        "task_index": torch.zeros(BATCH, dtype=torch.int64),
        "task": ["push the puck"] * BATCH,
        "observation.language.tokens": torch.randint(8, 8 + len(WORDS), (BATCH, 3), generator=generator),
        "observation.language.attention_mask": torch.tensor([[True, True, True], [True, True, False]] * (BATCH // 2)),
    }


def base_batch(kind: Kind, config: Any, batch: dict[str, Any]) -> dict[str, Any]:
    """What the base policy's own training would have been given for the same samples."""
    cut = {key: value[:, : kind.history] for key, value in batch.items() if key in (STATE, CAMERA, SIDE)}
    if config.base_observation_deltas() is None:
        cut = {key: value[:, 0] for key, value in cut.items()}
    actions = {key: batch[key][:, : kind.chunk_length] for key in (ACTION, "action_is_pad")}
    return batch | cut | actions
