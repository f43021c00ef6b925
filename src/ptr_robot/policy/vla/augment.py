"""Random crops and colour in training, one draw an image, keyed by the sample it belongs to."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ptr_robot.policy.noise import Noise, Purpose, places

MIN_CROP_SIDE = 0.88
MAX_COLOUR_CHANGE = 0.2


def augment(images: Tensor, noise: Noise) -> Tensor:  # (N, V, 3, H, W) uint8 -> (N, V, 3, H, W) float in [0, 1]
    """A crop of at least 88% of each side, scaled back, with brightness and contrast changed by up to 20%."""
    flat = images.flatten(0, 1)
    draws = noise.uniform(Purpose.IMAGES, places(images.shape[1], 5)).flatten(0, 1).T  # (5, N V)
    sides = MIN_CROP_SIDE + (1 - MIN_CROP_SIDE) * draws[0]
    pixels = crop(flat / 255, sides, (1 - sides) * (2 * draws[1] - 1), (1 - sides) * (2 * draws[2] - 1))
    brightness, contrast = (1 + MAX_COLOUR_CHANGE * (2 * draws[3:] - 1)).view(2, -1, 1, 1, 1)
    mean = pixels.mean(dim=(1, 2, 3), keepdim=True)
    coloured: Tensor = ((pixels - mean) * contrast + mean) * brightness
    return coloured.clamp(0, 1).view(images.shape)


def crop(pixels: Tensor, sides: Tensor, shifts_x: Tensor, shifts_y: Tensor) -> Tensor:  # (n, 3, H, W), (n,) each
    """Cut a window of relative ``sides`` around a shifted centre and scale it back to the full size."""
    zeros = torch.zeros_like(sides)
    rows = torch.stack([torch.stack([sides, zeros, shifts_x], -1), torch.stack([zeros, sides, shifts_y], -1)], 1)
    grid = F.affine_grid(rows, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, mode="bilinear", padding_mode="border", align_corners=False)
