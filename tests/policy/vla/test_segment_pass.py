"""Segments at once are their chunks one by one, gradients included."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ptr_robot.errors import ShapeError
from ptr_robot.policy.interface import Policy, TrainingChunk
from ptr_robot.policy.vla.policy import build_policy
from tests.policy.conftest import generator, make_chunk, make_observation, noise, small_config

CHUNKS = 3
FIELDS = ("action_losses", "contexts", "action_tokens", "action_states")


def make_chunks() -> list[TrainingChunk]:
    """Three chunks of three segments, with a missing view, texts of different lengths and steps past the end."""
    chunks = []
    for index in range(CHUNKS):
        observation = make_observation(seed=index)
        view_mask = torch.tensor([[True, True], [True, False], [False, False]])
        recorded = make_chunk(seed=10 + index)
        action_is_pad = torch.tensor([[False] * 4, [False, False, True, True], [index >= 2] * 4])
        chunks.append(
            TrainingChunk(
                dataclasses.replace(observation, view_mask=view_mask),
                dataclasses.replace(recorded, action_is_pad=action_is_pad),
                noise(index),
            )
        )
    return chunks


def make_beliefs() -> list[torch.Tensor]:
    return [torch.randn(3, 3, 32, generator=generator(20 + index)) for index in range(CHUNKS)]


def run(policy, step, *, with_belief: bool) -> tuple[list, list, list]:
    """What each chunk gives, and the gradients of a number that looks at all of it."""
    beliefs = [belief.requires_grad_() for belief in make_beliefs()]
    outputs = [step(index, beliefs[index] if with_belief else None) for index in range(CHUNKS)]
    total = sum(getattr(output, name).square().sum() for output in outputs for name in FIELDS)
    policy.zero_grad(set_to_none=True)
    total.backward()
    gradients = [parameter.grad for parameter in policy.parameters()]
    policy.zero_grad(set_to_none=True)
    return outputs, gradients, [belief.grad for belief in beliefs] if with_belief else []


def assert_same(policy, *, with_belief: bool) -> None:
    chunks = make_chunks()
    at_once = run(policy, policy.forward_segments(chunks), with_belief=with_belief)
    one_by_one = run(policy, Policy.forward_segments(policy, chunks), with_belief=with_belief)
    for output, expected in zip(at_once[0], one_by_one[0], strict=True):
        assert torch.equal(output.action_is_pad, expected.action_is_pad)
        for name in FIELDS:
            torch.testing.assert_close(getattr(output, name), getattr(expected, name), rtol=1e-4, atol=1e-5)
    for gradient, expected in zip(at_once[1] + at_once[2], one_by_one[1] + one_by_one[2], strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("with_belief", [True, False])
def test_losses_features_and_gradients_are_those_of_single_chunks(any_policy, with_belief):
    assert_same(any_policy, with_belief=with_belief)


def test_with_augmentation_and_checkpointed_activations():
    config = small_config()
    config = dataclasses.replace(
        config,
        vision=dataclasses.replace(config.vision, augment=True),
        trunk=dataclasses.replace(config.trunk, checkpoint_activations=True),
    )
    assert_same(build_policy(config, seed=0).train(), with_belief=True)


def test_under_bfloat16_autocast(any_policy):
    chunks, beliefs = make_chunks(), make_beliefs()
    exact, rough = any_policy.forward_segments(chunks)(1, beliefs[1]), None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = any_policy.forward_segments(chunks)(1, beliefs[1])
    torch.testing.assert_close(rough.action_losses, exact.action_losses, rtol=0.05, atol=0.05)


@torch.no_grad()
def test_no_chunk_sees_another_nor_another_belief(any_policy):
    chunks, beliefs = make_chunks(), make_beliefs()
    before = any_policy.forward_segments(chunks)(0, beliefs[0])
    others = [chunks[0], *(dataclasses.replace(chunk, observation=make_observation(seed=99)) for chunk in chunks[1:])]
    step = any_policy.forward_segments(others)
    step(1, beliefs[1] + 1)
    after = step(0, beliefs[0])
    for name in FIELDS:
        torch.testing.assert_close(getattr(after, name), getattr(before, name), rtol=1e-4, atol=1e-5)


def test_a_belief_of_another_shape_is_named(flow_policy):
    with pytest.raises(ShapeError, match=r"belief has shape \(3, 2, 32\); this policy takes \(3, 3, 32\)"):
        flow_policy.forward_segments(make_chunks())(0, torch.zeros(3, 2, 32))
