"""What the public code computes from the tiny checkpoint, ours computes too: from uint8 images and text to actions."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ptr_robot.policy.being_h.images import fit_images
from ptr_robot.policy.being_h.load import load_released
from tests.policy.being_h.conftest import read_case

TOLERANCE = 1e-4


@pytest.fixture(scope="module", params=["plain", "mpg"])
def policy(request, checkpoint):
    loaded = load_released(checkpoint, has_gating=request.param == "mpg").policy
    loaded.variant = request.param
    return loaded


def assert_near(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE)


@torch.no_grad()
def test_velocity_and_loss(policy, case):
    forward = policy.forward_chunk(case.observation, case.chunk, noise=case.training_noise)
    assert_near(policy.head.output(forward.action_states), case.tensors[f"{policy.variant}.train.velocity"])
    assert_near(forward.action_losses, torch.tensor([case.facts[f"{policy.variant}.train_loss"]]))


def test_sampled_chunk(policy, case):
    prediction = policy.predict(case.observation, noise=case.sampling_noise)
    assert_near(prediction.actions[0], case.tensors[f"{policy.variant}.infer.actions"])


def test_pixels(case, checkpoint):
    policy = load_released(checkpoint).policy
    fitted = fit_images(case.observation.images, 84, policy.config.vision.resize)
    assert_near(policy.vision_tower.normalise(fitted.flatten(0, 1)), case.tensors["pixels"])


@pytest.mark.parametrize("kind", ["train", "infer"])
def test_ids_and_places_of_the_sequence(kind, case, checkpoint):
    """Text ids in order, and every kind of token in its place; the reference has one more id behind the actions."""
    policy = load_released(checkpoint).policy
    ids = []
    embed = policy.trunk.embed_text
    policy.trunk.embed_text = lambda tokens: ids.append(tokens) or embed(tokens)
    context = (policy.context if kind == "train" else policy.sampling_context)(case.observation)
    expected = case.tensors[f"{kind}.packed_text_ids"]
    places = {name: case.tensors[f"{kind}.packed_{name}_indexes"] for name in ("text", "vit_token", "state", "action")}
    is_text = torch.isin(context.positions[0], places["text"])[: context.und.shape[1]]
    assert_near(context.und[0, is_text], embed(expected[:-1]))
    assert context.positions[0, context.und.shape[1] :].tolist() == places["state"].tolist()
    assert context.num_valid.item() == places["action"][0]
    is_image = torch.isin(context.positions[0], places["vit_token"])[: context.und.shape[1]]
    assert_near(context.und[0, is_image], case.tensors["plain.train.connector.output"].flatten(0, 1))
    assert sorted(torch.cat(ids, 1)[0].tolist()) == sorted(expected[:-1].tolist())


def test_samples_of_a_batch_do_not_know_of_each_other(checkpoint, reference):
    """Another text length and a missing view beside it change nothing for a sample."""
    policy = load_released(checkpoint).policy
    two_views = read_case(reference, "arm_hand_two_views")
    one_view = read_case(reference, "libero_one_view")
    images = fit_images(one_view.observation.images, 84, "bicubic_crop")
    padded = dataclasses.replace(
        one_view.observation,
        images=torch.cat([images, torch.zeros_like(images)], dim=1),
        view_mask=torch.tensor([[True, False]]),
    )
    fitted = dataclasses.replace(
        two_views.observation, images=fit_images(two_views.observation.images, 84, "bicubic_crop")
    )
    both = type(padded).join([padded, fitted])
    chunk = type(one_view.chunk).join([one_view.chunk, two_views.chunk])

    class Both(type(one_view.training_noise)):
        def uniform(self, purpose, places):
            cases = (one_view, two_views)
            return torch.cat([each.training_noise.uniform(purpose, places) for each in cases])

        normal = uniform

    with torch.no_grad():
        losses = policy.forward_chunk(both, chunk, noise=Both(torch.zeros(2, dtype=torch.int64))).action_losses
    expected = [each.facts["plain.train_loss"] for each in (one_view, two_views)]
    assert_near(losses, torch.tensor(expected))
