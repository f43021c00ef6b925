"""Images to tokens: a timm tower and the connector that hands its patches to the trunk."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from ptr_robot.errors import ConfigError, ShapeError, did_you_mean, require
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.vla.augment import augment
from ptr_robot.policy.vla.config import VisionConfig


class VisionTower(nn.Module):
    """A timm model behind a uint8 interface: resize, normalisation, the last block's patch features."""

    mean: Tensor
    std: Tensor

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.image_size = config.image_size
        self.model = create_tower(config)
        self.width = int(self.model.num_features)
        self.num_prefix_tokens = int(getattr(self.model, "num_prefix_tokens", 0))  # convolutional towers have none
        for name in ("mean", "std"):
            self.register_buffer(name, torch.empty(3, 1, 1), persistent=False)
        self.set_normalisation(config)

    def set_normalisation(self, config: VisionConfig) -> None:
        """Take the mean and deviation of pixels from a config."""
        device = None if self.mean.is_meta else self.mean.device  # a tower built on the meta device has none yet
        self.mean = torch.tensor(config.mean, device=device).view(3, 1, 1)
        self.std = torch.tensor(config.std, device=device).view(3, 1, 1)

    def forward(self, images: Tensor) -> Tensor:  # (n, 3, H, W) uint8, or float in [0, 1] -> (n, C, h, w)
        """The feature map of the last block."""
        features: Tensor = self.model.forward_intermediates(
            self.normalise(images), indices=1, norm=True, output_fmt="NCHW", intermediates_only=True
        )[-1]
        return features

    def measure_patches(self) -> tuple[int, int] | None:
        """Rows and columns of the feature map, from shapes alone; None where the tower does not run on these."""
        values = [*self.named_parameters(), *self.named_buffers()]
        images = torch.empty(2, 3, self.image_size, self.image_size, device="meta")
        try:
            with torch.no_grad():
                features = functional_call(self, {name: value.to("meta") for name, value in values}, (images,))
        except RuntimeError as error:
            if "too small" not in str(error):
                return None
            raise ConfigError(
                f"vision.image_size is {self.image_size}, smaller than a patch of the vision tower; choose a larger one"
            ) from error
        except (AssertionError, ZeroDivisionError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ConfigError(
                f"vision.image_size is {self.image_size}, which the vision tower cannot take ({reason}); choose another"
            ) from error
        return features.shape[-2], features.shape[-1]

    def normalise(self, images: Tensor) -> Tensor:  # -> (n, 3, image_size, image_size) float
        """Images as the tower expects them."""
        pixels = images / 255 if images.dtype == torch.uint8 else images
        if pixels.shape[-2:] != (self.image_size, self.image_size):
            size = (self.image_size, self.image_size)
            pixels = F.interpolate(pixels, size, mode="bilinear", antialias=True, align_corners=False)
        return (pixels - self.mean) / self.std


def create_tower(config: VisionConfig, *, pretrained: bool = False) -> Any:
    """The timm model of a config, without its classifier."""
    timm = require("timm", "lerobot")
    try:
        return timm.create_model(config.tower, pretrained=pretrained, num_classes=0, **resolve_arguments(config))
    except RuntimeError as error:
        if "Unknown model" not in str(error):
            raise
        hint = did_you_mean(config.tower, timm.list_models())
        if len(hint) > 100:
            hint = "timm.list_models() lists the names"
        raise ConfigError(f"timm has no vision tower {config.tower!r}; {hint}") from error


def resolve_arguments(config: VisionConfig) -> dict[str, Any]:
    """The tower's arguments, with the image size for those models that are built for one size."""
    models = require("timm.models", "lerobot")
    published = models.get_pretrained_cfg(config.tower) if models.is_model(config.tower) else None
    size = {"img_size": config.image_size} if published is not None and published.fixed_input_size else {}
    return size | config.tower_arguments


class Connector(nn.Module):
    """Pixel shuffle, then LayerNorm, Linear, GELU, Linear: fewer, wider tokens of the trunk's width."""

    def __init__(self, tower_width: int, trunk_width: int, shuffle: int) -> None:
        super().__init__()
        self.shuffle = shuffle
        merged = tower_width * shuffle**2
        self.project = nn.Sequential(
            nn.LayerNorm(merged), nn.Linear(merged, trunk_width), nn.GELU(), nn.Linear(trunk_width, trunk_width)
        )

    def forward(self, features: Tensor) -> Tensor:  # (n, C, h, w) -> (n, h w / shuffle², D)
        """One token for each square of patches, row by row."""
        self.check_patches(*features.shape[-2:])
        merged = F.pixel_unshuffle(features, self.shuffle)  # (n, C shuffle², h / shuffle, w / shuffle)
        tokens: Tensor = self.project(merged.flatten(2).transpose(1, 2))
        return tokens

    def check_patches(self, height: int, width: int) -> None:
        """Refuse a feature map that the shuffle does not divide."""
        if height % self.shuffle or width % self.shuffle:
            raise ConfigError(
                f"the vision tower gives {height} x {width} patches, which vision.shuffle={self.shuffle} does not "
                "divide; choose another image_size or shuffle"
            )


class VisionEncoder(nn.Module):
    """All views of an observation as tokens of the trunk's width."""

    def __init__(self, config: VisionConfig, trunk_width: int) -> None:
        super().__init__()
        self.config = config
        self.tower = VisionTower(config)
        self.connector = Connector(self.tower.width, trunk_width, config.shuffle)
        patches = self.tower.measure_patches()
        if patches is not None:
            self.connector.check_patches(*patches)

    def forward(
        self,
        images: Tensor,  # (N, V, 3, H, W) uint8
        view_mask: Tensor,  # (N, V) bool
        augmentation: Noise | None = None,
    ) -> tuple[Tensor, Tensor]:  # (N, V K, D), (N, V K) bool
        """The tokens of each view in turn, and which of them are real."""
        if not images.shape[1]:
            raise ShapeError(
                "this policy looks at images and the observation has no view; use a state-only preset such as "
                "'tiny-state' for data without images"
            )
        if augmentation is not None and self.config.augment:
            images = augment(images, augmentation)
        tokens = self.connector(self.tower(images.flatten(0, 1)))  # (N V, K, D)
        valid = view_mask.repeat_interleave(tokens.shape[1], dim=1)
        return tokens.reshape(images.shape[0], -1, tokens.shape[-1]), valid
