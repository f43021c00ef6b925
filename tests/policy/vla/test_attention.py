"""Who depends on whom, shown by changing one input and looking at everything else."""

from __future__ import annotations

import dataclasses

import torch

from ptr_robot.policy.vla.decoder import CachedDecoder
from ptr_robot.policy.vla.policy import pool_context
from ptr_robot.policy.vla.sequence import Part, arrange
from tests.policy.conftest import LENGTH, generator, make_chunk, make_observation, noise

STEPS = torch.ones(3, LENGTH, dtype=torch.bool)


def run(policy, observation, belief=None, tokens=None, steps=STEPS):
    """Hidden states of the context's und and gen tokens, and of the action tokens."""
    context = policy.context(observation, belief)
    if tokens is None:
        tokens = torch.randn(3, LENGTH, 32, generator=generator(9))
    output, states = policy.joint_pass(context, tokens, steps)
    return context, output.und, output.gen[:, :-LENGTH], states


def differs(first, second):
    """Which tokens of the sequence differ in any sample."""
    return ((first - second).abs().amax(dim=(0, 2)) > 1e-5).tolist()


@torch.no_grad()
def test_the_context_never_depends_on_the_actions(any_policy, belief):
    observation = make_observation()
    outcomes = [
        run(any_policy, observation, belief, torch.randn(3, LENGTH, 32, generator=generator(seed))) for seed in (1, 2)
    ]
    torch.testing.assert_close(outcomes[0][1], outcomes[1][1], rtol=0, atol=0)
    torch.testing.assert_close(outcomes[0][2], outcomes[1][2], rtol=0, atol=0)
    assert all(differs(outcomes[0][3], outcomes[1][3]))


def test_the_pooled_context_has_no_gradient_to_the_recorded_actions(any_policy, belief):
    chunk = make_chunk()
    actions = chunk.actions.clone().requires_grad_(True)
    chunk = dataclasses.replace(chunk, actions=actions)
    output = any_policy.forward_chunk(make_observation(), chunk, belief, noise=noise())
    gradient = torch.autograd.grad(output.contexts.square().sum(), actions, allow_unused=True, retain_graph=True)[0]
    assert gradient is None or gradient.abs().max() == 0
    assert torch.autograd.grad(output.action_tokens.square().sum(), actions, allow_unused=True)[0] is not None or (
        any_policy.head.is_causal  # bins have no gradient
    )
    first, second = (
        any_policy.forward_chunk(make_observation(), make_chunk(seed=seed), belief, noise=noise()) for seed in (1, 2)
    )
    torch.testing.assert_close(first.contexts, second.contexts, rtol=0, atol=0)


@torch.no_grad()
def test_language_is_causal_and_vision_bidirectional(flow_policy, belief):
    observation = dataclasses.replace(make_observation(), instructions=("abcd",) * 3)
    changed_text = dataclasses.replace(observation, instructions=("abXd",) * 3)
    _, und, gen, actions = run(flow_policy, observation, belief)
    _, und_text, gen_text, actions_text = run(flow_policy, changed_text, belief)
    # und order: start (1), images (2 views of 4 tokens), instruction (4); gen order: state (2), belief (3)
    assert differs(und, und_text) == [False] * 9 + [False, False, True, True]
    assert differs(gen, gen_text) == [False, False] + [True] * 3
    assert all(differs(actions, actions_text))

    images = observation.images.clone()
    images[:, 1, :, 24:, 24:] = 255 - images[:, 1, :, 24:, 24:]  # the last patch of the last view
    _, und_image, gen_image, _ = run(flow_policy, dataclasses.replace(observation, images=images), belief)
    assert differs(und, und_image) == [False] + [True] * 12
    assert all(differs(gen, gen_image))


@torch.no_grad()
def test_state_and_belief_reach_what_comes_after_them_alone(flow_policy, belief):
    observation = make_observation()
    length = max(len(text) for text in observation.instructions)
    states = observation.states.clone()
    states[:, 0] += 1
    _, und, gen, actions = run(flow_policy, observation, belief)
    _, und_state, gen_state, actions_state = run(flow_policy, dataclasses.replace(observation, states=states), belief)
    assert differs(und, und_state) == [False] * 9 + [True] * length
    assert all(differs(gen, gen_state))
    assert all(differs(actions, actions_state))
    _, und_belief, gen_belief, actions_belief = run(flow_policy, observation, belief + 1)
    assert not any(differs(und, und_belief))
    assert differs(gen, gen_belief) == [False, False] + [True] * 3
    assert all(differs(actions, actions_belief))


@torch.no_grad()
def test_actions_see_each_other_or_only_earlier_ones(any_policy, belief):
    tokens = torch.randn(3, LENGTH, 32, generator=generator(9))
    changed = tokens.clone()
    changed[:, 2] += 1
    observation = make_observation()
    before, after = (run(any_policy, observation, belief, value)[3] for value in (tokens, changed))
    expected = [False, False, True, True] if any_policy.head.is_causal else [True] * 4
    assert differs(before, after) == expected


@torch.no_grad()
def test_padded_steps_do_not_reach_real_ones(flow_policy, belief):
    steps = STEPS.clone()
    steps[:, 3] = False
    tokens = torch.randn(3, LENGTH, 32, generator=generator(9))
    changed = tokens.clone()
    changed[:, 3] += 1
    observation = make_observation()
    before, after = (run(flow_policy, observation, belief, value, steps)[3] for value in (tokens, changed))
    assert differs(before, after) == [False, False, False, True]


@torch.no_grad()
def test_slots_the_robot_does_not_measure_do_not_matter(flow_policy):
    observation = make_observation()
    polluted = torch.where(observation.state_mask, observation.states, torch.full_like(observation.states, 9.0))
    first, second = (
        run(flow_policy, value)[3] for value in (observation, dataclasses.replace(observation, states=polluted))
    )
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@torch.no_grad()
def test_the_cached_pass_equals_the_joint_one(any_policy, belief):
    observation = make_observation()
    tokens = torch.randn(3, LENGTH, 32, generator=generator(9))
    context, _, _, states = run(any_policy, observation, belief, tokens)
    decoder, output = CachedDecoder.start(any_policy.trunk, context, is_causal=any_policy.head.is_causal)
    torch.testing.assert_close(decoder.states(tokens), states, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(decoder.states(tokens), decoder.states(tokens), rtol=0, atol=0)
    joint, _ = any_policy.joint_pass(context, tokens, STEPS)
    torch.testing.assert_close(pool_context(context, output), pool_context(context, joint), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_missing_view_equals_no_view(flow_policy):
    two = make_observation()
    hidden = dataclasses.replace(two, view_mask=torch.tensor([[True, False]] * 3))
    one = dataclasses.replace(two, images=two.images[:, :1], view_mask=torch.ones(3, 1, dtype=torch.bool))
    torch.testing.assert_close(run(flow_policy, hidden)[3], run(flow_policy, one)[3], rtol=1e-4, atol=1e-5)


def test_positions_skip_padding_and_follow_the_sequence():
    def part(valid, *, is_causal, is_gen=False):
        valid = torch.tensor([valid])
        return Part(torch.zeros(1, valid.shape[1], 1), valid, is_causal=is_causal, is_gen=is_gen)

    context = arrange(
        [
            part([True], is_causal=True),
            part([True, True, False], is_causal=False),
            part([True], is_causal=False, is_gen=True),
            part([True, False], is_causal=True),
            part([True], is_causal=False, is_gen=True),
        ]
    )
    # columns: prompt, three image tokens, two of text; state, belief
    assert context.positions[0].tolist() == [0, 1, 2, 2, 4, 4, 3, 5]
    assert context.num_valid.item() == 6
    ranks = context.ranks.tolist()
    assert ranks[1] == ranks[2] == ranks[3]
    assert ranks[0] < ranks[1] < ranks[6] < ranks[4] < ranks[5] < ranks[7]
    assert context.mask().any(dim=2).all()
