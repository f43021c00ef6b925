"""Frames of any shape as Being-H0.5 saw them: the same resize as the data's, for those who bring images themselves."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ptr_robot.data.lerobot.frames import resize_frame


def fit_images(images: Tensor, size: int, mode: str) -> Tensor:  # (N, V, 3, H, W) uint8 -> (N, V, 3, size, size)
    """Images that the data's own loader has prepared pass as they are."""
    if images.shape[-2:] == (size, size) or not images.numel():
        return images
    frames = images.flatten(0, 1).permute(0, 2, 3, 1).cpu().numpy()  # (n, H, W, 3)
    resized = torch.from_numpy(np.stack([resize_frame(frame, size, mode) for frame in frames]))
    return resized.view(*images.shape[:2], 3, size, size).to(images.device)
