"""h_t = f(o, l, z): without the state in the context nothing of it moves with the state, and actions still do."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ptr_robot.policy.observation import Observation
from ptr_robot.policy.registry import policy_type
from ptr_robot.policy.vla.config import PolicyConfig
from ptr_robot.policy.vla.policy import MixturePolicy, build_policy
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.train.methods.registry import training_method
from ptr_robot.train.starting_policy import StartingPolicy
from tests.policy.conftest import make_chunk, make_observation, noise, small_config
from tests.policy.vla.test_segment_pass import assert_same


@pytest.fixture(scope="module")
def paper_policy() -> MixturePolicy:
    return build_policy(small_config(context_sees_state=False), seed=0).eval()


def with_other_state() -> Observation:
    observation = make_observation()
    return dataclasses.replace(observation, states=observation.states + observation.state_mask * 0.7)


@torch.no_grad()
@pytest.mark.parametrize("has_belief", [True, False])
def test_no_context_depends_on_the_state_and_every_loss_does(paper_policy, flow_policy, belief, has_belief):
    given = belief if has_belief else None
    for policy, sees_state in ((paper_policy, False), (flow_policy, True)):
        first, second = (
            policy.forward_chunk(observation, make_chunk(), given, noise=noise())
            for observation in (make_observation(), with_other_state())
        )
        assert torch.equal(first.contexts, second.contexts) == (not sees_state)
        assert (first.action_losses != second.action_losses).all()
        predicted = [policy.predict(o, given, noise=noise()) for o in (make_observation(), with_other_state())]
        assert torch.equal(predicted[0].contexts, predicted[1].contexts) == (not sees_state)
        assert not torch.equal(predicted[0].actions, predicted[1].actions)


@torch.no_grad()
def test_the_context_still_depends_on_images_instruction_and_belief(paper_policy, belief):
    observation = make_observation()
    others = [
        (dataclasses.replace(observation, images=255 - observation.images), belief),
        (dataclasses.replace(observation, instructions=("close",) * 3), belief),
        (observation, belief + 1),
    ]
    base = paper_policy.forward_chunk(observation, make_chunk(), belief, noise=noise()).contexts
    for changed, tokens in others:
        contexts = paper_policy.forward_chunk(changed, make_chunk(), tokens, noise=noise()).contexts
        assert not torch.allclose(contexts, base)


@pytest.mark.parametrize("with_belief", [True, False])
def test_segments_are_their_single_chunks(paper_policy, with_belief):
    assert_same(paper_policy, with_belief=with_belief)


@pytest.mark.parametrize("method", ["sft", "screened", "sft-belief", "ptr", "robust"])
def test_a_new_policy_has_the_papers_context_under_every_method(method):
    """Or methods would be compared in different policies."""
    ptr = training_method(method).ptr_config(steps=100, log_freq=10)
    for choice, sees_state in ((VLAChoice(), False), (VLAChoice(context_sees_state=True), True)):
        assert StartingPolicy.find(choice, ptr, None).shape.context_sees_state == sees_state


@pytest.mark.parametrize(("saved", "flag", "expected"), [(True, None, True), (True, False, False), (False, True, True)])
def test_a_trained_policy_keeps_its_context_unless_a_flag_changes_it(tmp_path, saved, flag, expected):
    kind = policy_type("vla")
    config = small_config(context_sees_state=saved, num_belief_tokens=4)
    kind.save(build_policy(config, seed=0), tmp_path, [])
    choice = VLAChoice(path=str(tmp_path), context_sees_state=flag)
    start = StartingPolicy.find(choice, training_method("ptr").ptr_config(steps=100, log_freq=10), None)
    policy = start.build(seed=0)
    assert policy.config.context_sees_state == expected
    assert dataclasses.replace(policy.config, context_sees_state=saved) == config


def test_a_config_of_an_earlier_version_keeps_its_context():
    values = dataclasses.asdict(small_config())
    del values["context_sees_state"]
    assert PolicyConfig.from_dict(values).context_sees_state
