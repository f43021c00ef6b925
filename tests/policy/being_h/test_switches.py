"""Where the PTR paper contradicts the checkpoint: what each switch changes, and where belief tokens stand."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ptr_robot.errors import ConfigError
from ptr_robot.policy.being_h.load import load_released
from ptr_robot.policy.interface import Policy, TrainingChunk
from ptr_robot.policy.noise import Noise
from tests.policy.being_h.conftest import read_case


@pytest.fixture
def policy(checkpoint):
    return load_released(checkpoint).policy


@pytest.fixture
def two_views(reference):
    return read_case(reference, "arm_hand_two_views")


def seen_by(mask: torch.Tensor, context, query: int, key: int) -> bool:
    """Whether the token at position ``query`` attends to that at ``key``."""
    columns = {int(position): column for column, position in enumerate(context.positions[0])}
    return bool(mask[0, columns[query], columns[key]])


def test_the_checkpoints_mask_is_causal_throughout(policy, two_views):
    context = policy.context(two_views.observation)
    order = context.positions[0]
    assert torch.equal(context.mask()[0], order.unsqueeze(1) >= order)
    assert policy.head.is_causal


def test_the_papers_mask_is_bidirectional_in_each_view_and_the_actions(policy, two_views):
    policy.adopt(dataclasses.replace(policy.config, attention="paper"))
    context = policy.context(two_views.observation)
    image = two_views.tensors["train.packed_vit_token_indexes"].tolist()
    mask = context.mask()
    assert seen_by(mask, context, image[0], image[8])  # within the first view
    assert not seen_by(mask, context, image[0], image[9])  # markers and the second view come later
    assert seen_by(mask, context, image[9], image[0])
    assert not seen_by(mask, context, 0, 1)  # text
    assert not policy.head.is_causal


def test_unused_slots_are_zero_by_the_papers_switch(policy, two_views):
    noise = Noise.keyed(torch.tensor([3]))
    free = ~two_views.observation.action_mask[0]
    assert policy.predict(two_views.observation, noise=noise).actions[0][:, free].abs().max() > 0.1
    policy.adopt(dataclasses.replace(policy.config, flow=dataclasses.replace(policy.config.flow, every_slot=False)))
    assert policy.predict(two_views.observation, noise=noise).actions[0][:, free].abs().max() == 0


def test_belief_tokens_stand_directly_before_the_actions(policy, two_views):
    plain = policy.context(two_views.observation)
    belief = torch.randn(1, policy.sizes.num_belief_tokens, policy.sizes.action_dim)
    context = policy.context(two_views.observation, belief)
    first = int(plain.num_valid)
    assert context.positions[0, -belief.shape[1] :].tolist() == list(range(first, first + belief.shape[1]))
    assert int(context.num_valid) == first + belief.shape[1]
    assert not context.mask()[0, : -belief.shape[1], -belief.shape[1] :].any()  # no earlier token sees them


@pytest.mark.parametrize("attention", ["causal", "paper"])
def test_segments_at_once_are_their_chunks_one_by_one(policy, two_views, attention):
    policy.adopt(dataclasses.replace(policy.config, attention=attention))
    chunks = [TrainingChunk(two_views.observation, two_views.chunk, Noise.keyed(torch.tensor([n]))) for n in range(2)]
    beliefs = [torch.randn(1, 4, 48, generator=torch.Generator().manual_seed(n)) for n in range(2)]
    at_once, one_by_one = policy.forward_segments(chunks), Policy.forward_segments(policy, chunks)
    for index, belief in enumerate(beliefs):
        ours, expected = at_once(index, belief), one_by_one(index, belief)
        for name in ("action_losses", "contexts", "action_tokens", "action_states"):
            torch.testing.assert_close(getattr(ours, name), getattr(expected, name), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_changed_is_refused(policy):
    with pytest.raises(ConfigError, match="attention is 'full'"):
        dataclasses.replace(policy.config, attention="full")
    with pytest.raises(ConfigError, match=r"does not name \{task\}"):
        dataclasses.replace(policy.config, instruction="do it")
    with pytest.raises(ConfigError, match="chunk_length"):
        policy.adopt(dataclasses.replace(policy.config, chunk_length=8))
