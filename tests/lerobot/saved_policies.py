"""Small policies on disk, with processors, as ``lerobot-train`` leaves them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from lerobot.policies.factory import make_pre_post_processors

from ptr_robot.policy.deployed import RobotObservation
from tests.lerobot.small_policies import ACTION, ACTION_DIM, CAMERA, PIXELS, SIDE, STATE, STATE_DIM, Kind, make_pair

TASK = "push the puck"


def statistics() -> dict[str, dict[str, torch.Tensor]]:
    """Of a robot whose units are not the policy's."""
    generator = torch.Generator().manual_seed(3)

    def of(*shape: int) -> dict[str, torch.Tensor]:
        mean, std = torch.rand(shape, generator=generator), 0.5 + torch.rand(shape, generator=generator)
        limits = {"min": mean - 2 * std, "max": mean + 2 * std}
        return {"mean": mean, "std": std, **limits, "q01": limits["min"], "q99": limits["max"]}

    return {STATE: of(STATE_DIM), ACTION: of(ACTION_DIM), CAMERA: of(3, 1, 1), SIDE: of(3, 1, 1)}


def save_policy(kind: Kind, folder: Path, *, is_base: bool = False) -> Path:
    """A policy of that type, or its base policy, of random weights."""
    policy = make_pair(kind)[is_base]
    policy.save_pretrained(folder)
    for processor in make_pre_post_processors(policy.config, dataset_stats=statistics()):
        processor.save_pretrained(folder)
    return folder


def observation(seed: int = 0) -> RobotObservation:
    """One frame."""
    generator = np.random.default_rng(seed)
    images = {key: generator.integers(0, 256, (PIXELS, PIXELS, 3), dtype=np.uint8) for key in (CAMERA, SIDE)}
    return RobotObservation(generator.normal(size=STATE_DIM).astype(np.float32), images, TASK)


def history(frames: list[RobotObservation]) -> RobotObservation:
    """Several frames as one observation, the oldest first."""
    images = {key: np.stack([frame.images[key] for frame in frames]) for key in frames[0].images}
    return RobotObservation(np.stack([frame.state for frame in frames]), images, TASK)
