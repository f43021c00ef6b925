"""The belief recursion at inference, against the recursion written out."""

from __future__ import annotations

import pytest
import torch

from ptr_robot.errors import ConfigError, ShapeError
from ptr_robot.method.ptr.belief import BeliefTokenizer
from ptr_robot.method.ptr.config import BeliefConfig
from ptr_robot.policy.recursion import ChunkPredictor
from tests.policy.conftest import make_observation, noise, take


@pytest.fixture
def tokenizer(any_policy):
    sizes = any_policy.sizes
    torch.manual_seed(0)
    return BeliefTokenizer(BeliefConfig(num_tokens=3), state_dim=sizes.action_state_dim, action_dim=sizes.action_dim)


@torch.no_grad()
def test_the_belief_is_carried_between_chunks(any_policy, tokenizer):
    predictor = ChunkPredictor(any_policy, tokenizer)
    belief = tokenizer.initial(3)
    for seed in range(3):
        observation = make_observation(seed=seed)
        prediction = predictor.predict(observation, noise=noise(seed))
        expected = any_policy.predict(observation, belief, noise=noise(seed))
        torch.testing.assert_close(prediction.actions, expected.actions, rtol=0, atol=0)
        belief = tokenizer(expected.action_states, expected.action_tokens).next_tokens
        torch.testing.assert_close(predictor.belief, belief, rtol=0, atol=0)
    assert not torch.equal(belief, tokenizer.initial(3))


@torch.no_grad()
def test_rows_are_reset_with_their_own_episodes(any_policy, tokenizer):
    predictor = ChunkPredictor(any_policy, tokenizer)
    predictor.predict(make_observation(), noise=noise(1))
    carried = predictor.belief
    is_first = torch.tensor([False, True, False])
    prediction = predictor.predict(make_observation(seed=2), noise=noise(2), is_first=is_first)
    belief = carried.clone()
    belief[1] = tokenizer.initial_tokens
    expected = any_policy.predict(make_observation(seed=2), belief, noise=noise(2))
    torch.testing.assert_close(prediction.actions, expected.actions, rtol=0, atol=0)
    predictor.reset()
    fresh = predictor.predict(make_observation(), noise=noise(1)).actions
    first = ChunkPredictor(any_policy, tokenizer).predict(make_observation(), noise=noise(1)).actions
    torch.testing.assert_close(fresh, first, rtol=0, atol=0)


@torch.no_grad()
def test_without_a_tokenizer_nothing_is_remembered(any_policy):
    predictor = ChunkPredictor(any_policy)
    first, again = (predictor.predict(make_observation(), noise=noise(1)).actions for _ in range(2))
    torch.testing.assert_close(first, again, rtol=0, atol=0)


def test_what_does_not_fit_is_named(any_policy, tokenizer):
    other = BeliefTokenizer(BeliefConfig(num_tokens=5), state_dim=32, action_dim=32)
    with pytest.raises(ConfigError, match="gives 5 tokens and the policy takes 3"):
        ChunkPredictor(any_policy, other)
    predictor = ChunkPredictor(any_policy, tokenizer)
    predictor.predict(make_observation(), noise=noise())
    with pytest.raises(ShapeError, match="3 rows and this one has 2"):
        predictor.predict(take(make_observation(), [0, 1]), noise=noise(count=2))
