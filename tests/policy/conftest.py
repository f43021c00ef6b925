"""Small policies and observations that the policy tests share."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation
from ptr_robot.policy.vla.config import AutoregressiveConfig, PolicyConfig, StreamConfig, TrunkConfig, VisionConfig
from ptr_robot.policy.vla.policy import build_policy

LENGTH = 4
STATE_SLOTS = [0, 1, 2, 44]
ACTION_SLOTS = [0, 1, 2, 18]
TEXTS = ("reach", "push the puck", "open")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small_config(*, vision: bool = True, **changes) -> PolicyConfig:
    """Two layers, streams of different width, grouped heads, a tower of three blocks with a class token."""
    tower_arguments = {"patch_size": 8, "embed_dim": 24, "depth": 3, "num_heads": 2, "mlp_ratio": 2.0}
    config = PolicyConfig(
        trunk=TrunkConfig(
            context=StreamConfig(width=48, mlp_width=64),
            action=StreamConfig(width=32, mlp_width=48),
            num_layers=2,
            num_heads=4,
            num_key_value_heads=2,
            head_dim=12,
            rope_theta=1e4,
        ),
        vision=VisionConfig(tower="vit_tiny_patch16_224", tower_arguments=tower_arguments, image_size=32)
        if vision
        else None,
        chunk_length=LENGTH,
        num_state_tokens=2,
        num_belief_tokens=3,
        autoregressive=AutoregressiveConfig(num_bins=32, bin_dim=4),
    )
    return dataclasses.replace(config, **changes)


def slots_mask(count: int, slots: list[int]) -> torch.Tensor:
    mask = torch.zeros(count, 200, dtype=torch.bool)
    mask[:, slots] = True
    return mask


def make_observation(count: int = 3, views: int = 2, seed: int = 0) -> Observation:
    generator = torch.Generator().manual_seed(seed)
    state_mask = slots_mask(count, STATE_SLOTS)
    return Observation(
        images=torch.randint(0, 256, (count, views, 3, 32, 32), generator=generator, dtype=torch.uint8),
        view_mask=torch.ones(count, views, dtype=torch.bool),
        states=torch.randn(count, 200, generator=generator) * state_mask,
        state_mask=state_mask,
        action_mask=slots_mask(count, ACTION_SLOTS),
        instructions=tuple(TEXTS[row % len(TEXTS)] for row in range(count)),
    )


def take(observation: Observation, rows: list[int]) -> Observation:
    """Some rows of an observation, in any order."""
    values = {field.name: getattr(observation, field.name) for field in dataclasses.fields(Observation)}
    texts = tuple(observation.instructions[row] for row in rows)
    return Observation(**{name: texts if name == "instructions" else value[rows] for name, value in values.items()})


def make_chunk(count: int = 3, seed: int = 1) -> ActionChunk:
    generator = torch.Generator().manual_seed(seed)
    actions = torch.randn(count, LENGTH, 200, generator=generator) * slots_mask(count, ACTION_SLOTS).unsqueeze(1)
    return ActionChunk(actions=actions, action_is_pad=torch.zeros(count, LENGTH, dtype=torch.bool))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(seed: int = 0, count: int = 3) -> Noise:
    return Noise.keyed(seed, torch.arange(count))


@pytest.fixture(scope="session", params=["flow", "diffusion", "autoregressive"])
def any_policy(request):
    """A small policy with each of the heads."""
    return build_policy(small_config(head=request.param), seed=0).eval()


@pytest.fixture(scope="session")
def flow_policy():
    return build_policy(small_config(), seed=0).eval()


@pytest.fixture
def belief():
    return torch.randn(3, 3, 32, generator=generator(5))
