"""The code in the documents runs, with PTR on top."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.method.ptr.algorithm import PTR
from ptr_robot.method.ptr.targets import EMATargetEncoder
from ptr_robot.method.types import Samples
from ptr_robot.policy.recursion import ChunkPredictor
from ptr_robot.policy.vla.policy import build_policy
from ptr_robot.policy.vla.presets import preset
from tests.policy.conftest import ACTION_SLOTS, STATE_SLOTS, generator, make_observation, noise, slots_mask

DOCUMENTS = Path(__file__).parents[2] / "docs"
SEGMENTS, CHUNKS, LENGTH = 2, 2, 16


@pytest.fixture(scope="module")
def batch() -> SegmentBatch:
    draws = generator(0)
    grid = (SEGMENTS, CHUNKS)
    return SegmentBatch(
        frames=torch.randint(0, 256, (SEGMENTS, 3, 1, 3, 64, 64), generator=draws, dtype=torch.uint8),
        view_mask=torch.ones(SEGMENTS, 1, dtype=torch.bool),
        current_frame=torch.tensor([[0, 1], [0, 1]]),
        future_frame=torch.tensor([[1, 2], [1, 2]]),
        states=torch.randn(*grid, 200, generator=draws),
        future_states=torch.randn(*grid, 200, generator=draws),
        state_mask=slots_mask(SEGMENTS, STATE_SLOTS),
        actions=torch.randn(*grid, LENGTH, 200, generator=draws) * slots_mask(SEGMENTS, ACTION_SLOTS)[:, None, None],
        action_mask=slots_mask(SEGMENTS, ACTION_SLOTS),
        action_is_pad=torch.zeros(*grid, LENGTH, dtype=torch.bool),
        has_target=torch.ones(grid, dtype=torch.bool),
        offset_steps=torch.full(grid, LENGTH),
        sample_id=torch.arange(SEGMENTS * CHUNKS).view(grid),
        episode_id=torch.arange(SEGMENTS),
        task_id=torch.zeros(SEGMENTS, dtype=torch.int64),
        source_id=torch.zeros(SEGMENTS, dtype=torch.int64),
        instructions=("reach", "push the puck"),
    )


@pytest.fixture(scope="module")
def document() -> dict:
    """The names that the code of add_a_policy.md defines."""
    names: dict = {"__name__": "documents_policy"}
    for block in re.findall(r"```python\n(.*?)```", (DOCUMENTS / "add_a_policy.md").read_text(), re.DOTALL):
        exec(compile(block, "add_a_policy.md", "exec", dont_inherit=True), names)
    return names


def flat_samples(batch: SegmentBatch, targets: torch.Tensor) -> Samples:
    return Samples(targets=targets, has_target=batch.has_target.flatten(), sample_ids=batch.sample_id.flatten())


def test_the_documents_policy_learns_with_ptr(document, batch):
    torch.manual_seed(0)
    policy = document["LinearPolicy"](document["LinearConfig"]())
    ptr = document["make_ptr"](policy, target_dim=200)
    targets = torch.nn.functional.normalize(batch.future_states.flatten(0, 1), dim=-1)
    output = document["learn"](policy, ptr, batch, flat_samples(batch, targets), step=0)
    assert output.weights.shape == (SEGMENTS * CHUNKS,)
    assert all(parameter.grad is not None for parameter in policy.parameters() if parameter.requires_grad)
    predictor = ChunkPredictor(policy, ptr.belief)
    first, second = (predictor.predict(make_observation(2), noise=noise(count=2)).actions for _ in range(2))
    assert not torch.equal(first, second)  # the belief moved on


def test_the_reference_policy_learns_with_ptr(document, batch):
    policy = build_policy(preset("tiny"), seed=0)
    encoder = EMATargetEncoder(policy.vision_tower, num_prefix_tokens=policy.num_prefix_tokens)
    rows = torch.arange(SEGMENTS).unsqueeze(1)
    targets = torch.nn.functional.normalize(encoder(batch.frames[rows, batch.future_frame]).flatten(0, 1), dim=-1)
    ptr = document["make_ptr"](policy, target_dim=targets.shape[-1])
    assert isinstance(ptr, PTR)
    output = document["learn"](policy, ptr, batch, flat_samples(batch, targets), step=0)
    assert output.loss.isfinite()
    assert all(parameter.grad is not None for parameter in policy.parameters() if parameter.requires_grad)
    assert all(parameter.grad is not None for parameter in ptr.belief.parameters())


def test_the_table_of_presets_tells_the_truth():
    text = (DOCUMENTS / "policy.md").read_text()
    for name, stated, unit in re.findall(r"\| `([a-z0-9-]+)` \|.*\| ([\d.]+) ([MB]) \|", text):
        with torch.device("meta"):
            policy = build_policy(preset(name), seed=0)
        count = sum(parameter.numel() for parameter in policy.parameters())
        assert count / {"M": 1e6, "B": 1e9}[unit] == pytest.approx(float(stated), rel=0.04), name
