"""The reference policy as PTR and the training loop see it."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.errors import ConfigError, DataError, ShapeError
from ptr_robot.method.ptr.targets import EMATargetEncoder
from ptr_robot.policy.noise import Noise
from ptr_robot.policy.observation import ActionChunk, Observation
from ptr_robot.policy.vla.augment import augment
from ptr_robot.policy.vla.config import VisionConfig
from ptr_robot.policy.vla.policy import build_policy
from tests.policy.conftest import LENGTH, make_chunk, make_observation, noise, slots_mask, small_config, take


def test_forward_gives_what_ptr_reads(any_policy, belief):
    chunk = dataclasses.replace(
        make_chunk(), action_is_pad=torch.tensor([[False] * 4, [False, True, True, True], [True] * 4])
    )
    output = any_policy(make_observation(), chunk, belief, noise=noise())
    sizes = any_policy.sizes
    assert output.action_losses.shape == (3,)
    assert output.action_losses[2] == 0
    assert (output.action_losses[:2] > 0).all()
    assert output.contexts.shape == (3, sizes.context_dim)
    assert output.action_tokens.shape == (3, LENGTH, sizes.action_dim)
    assert output.action_states.shape == (3, LENGTH, sizes.action_state_dim)
    assert output.action_is_pad is chunk.action_is_pad


def test_action_tokens_embed_the_recorded_chunk_without_noise(any_policy):
    first, second = (any_policy.forward_chunk(make_observation(), make_chunk(), noise=noise(seed)) for seed in (0, 1))
    torch.testing.assert_close(first.action_tokens, second.action_tokens, rtol=0, atol=0)
    is_noised = not any_policy.head.is_causal
    assert torch.equal(first.action_states, second.action_states) != is_noised


def test_the_same_keys_give_the_same_pass(any_policy, belief):
    first, again = (
        any_policy.forward_chunk(make_observation(), make_chunk(), belief, noise=noise(7)) for _ in range(2)
    )
    torch.testing.assert_close(first.action_losses, again.action_losses, rtol=0, atol=0)
    actions = [any_policy.predict(make_observation(), belief, noise=noise(7)).actions for _ in range(2)]
    torch.testing.assert_close(*actions, rtol=0, atol=0)
    state = torch.random.get_rng_state()
    any_policy.predict(make_observation(), belief, noise=noise(7))
    assert torch.equal(state, torch.random.get_rng_state())


@torch.no_grad()
def test_a_sample_does_not_depend_on_its_batch_mates(any_policy, belief):
    """The second sample has the longest text and the first all views; alone, each gives the same loss."""
    observation = dataclasses.replace(
        make_observation(), view_mask=torch.tensor([[True, True], [True, False], [False, False]])
    )
    chunk = make_chunk()
    mask = observation.action_mask
    prepared = any_policy.head.prepare(chunk.actions, mask, noise())
    _, together = any_policy.joint_pass(any_policy.context(observation, belief), prepared.tokens, ~chunk.action_is_pad)
    errors = any_policy.head.errors(together, prepared, mask)
    for row in range(3):
        one = [row]
        context = any_policy.context(take(observation, one), belief[one])
        _, states = any_policy.joint_pass(context, prepared.tokens[one], ~chunk.action_is_pad[one])
        own = dataclasses.replace(prepared, tokens=prepared.tokens[one], targets=prepared.targets[one])
        torch.testing.assert_close(any_policy.head.errors(states, own, mask[one]), errors[one], rtol=1e-3, atol=1e-4)


@torch.no_grad()
def test_teacher_forcing_equals_decoding_step_by_step(belief):
    policy = build_policy(small_config(head="autoregressive"), seed=0).eval()
    observation = make_observation()
    prediction = policy.predict(observation, belief, noise=noise())
    chunk = ActionChunk(prediction.actions, action_is_pad=torch.zeros(3, LENGTH, dtype=torch.bool))
    forced = policy.forward_chunk(observation, chunk, belief, noise=noise())
    torch.testing.assert_close(prediction.action_states, forced.action_states, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(prediction.action_tokens, forced.action_tokens)
    slots = observation.action_mask[0].nonzero().flatten()
    likeliest = policy.head._logits(forced.action_states, slots).argmax(dim=-1)
    recorded = policy.head.prepare(prediction.actions, observation.action_mask, noise()).targets
    assert torch.equal(likeliest, recorded[..., slots])


@torch.no_grad()
def test_prediction_carries_what_the_recursion_needs(any_policy, belief):
    observation = make_observation()
    prediction = any_policy.predict(observation, belief, noise=noise())
    assert prediction.actions.shape == (3, LENGTH, 200)
    assert (prediction.actions[..., ~observation.action_mask[0]] == 0).all()
    embedded = any_policy.head.embed(prediction.actions, observation.action_mask)
    torch.testing.assert_close(prediction.action_tokens, embedded)
    forward = any_policy.forward_chunk(observation, make_chunk(), belief, noise=noise())
    torch.testing.assert_close(prediction.contexts, forward.contexts, rtol=1e-4, atol=1e-5)


def test_an_observation_is_the_present_and_never_the_future():
    frames = torch.arange(2 * 3).view(2, 3, 1, 1, 1, 1).expand(2, 3, 1, 3, 2, 2).to(torch.uint8)
    batch = SegmentBatch(
        frames=frames,
        view_mask=torch.ones(2, 1, dtype=torch.bool),
        current_frame=torch.tensor([[0, 1], [1, 2]]),
        future_frame=torch.tensor([[1, 2], [2, 2]]),
        states=torch.randn(2, 2, 200),
        future_states=torch.full((2, 2, 200), float("nan")),
        state_mask=slots_mask(2, [0]),
        actions=torch.randn(2, 2, LENGTH, 200),
        action_mask=slots_mask(2, [1]),
        action_is_pad=torch.tensor([[[False] * 4, [False] * 4], [[False] * 4, [False, True, True, True]]]),
        has_target=torch.ones(2, 2, dtype=torch.bool),
        offset_steps=torch.full((2, 2), LENGTH),
        sample_id=torch.arange(4).view(2, 2),
        episode_id=torch.arange(2),
        task_id=torch.zeros(2, dtype=torch.int64),
        source_id=torch.zeros(2, dtype=torch.int64),
        instructions=("a", "b"),
    )
    for index in range(2):
        observation, chunk = Observation.at_chunk(batch, index), ActionChunk.at_chunk(batch, index)
        for row in range(2):
            assert (observation.images[row] == frames[row, batch.current_frame[row, index]]).all()
        assert torch.equal(observation.states, batch.states[:, index])
        assert torch.equal(chunk.actions, batch.actions[:, index])
        assert torch.equal(chunk.action_is_pad, batch.action_is_pad[:, index])


def test_flow_learns_eight_samples_by_heart():
    policy = build_policy(small_config(vision=False), seed=0)
    observation, chunk = make_observation(8), make_chunk(8)
    rows = list(range(8)) * 4  # four draws of noise for each sample
    many, recorded = take(observation, rows), ActionChunk(chunk.actions[rows], action_is_pad=chunk.action_is_pad[rows])
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=200)
    history = []
    for step in range(200):
        loss = policy(many, recorded, noise=noise(step, count=32)).action_losses.mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        history.append(loss.item())
    assert sum(history[-20:]) < sum(history[:20]) / 10
    active = observation.action_mask[0]
    sampled = policy.predict(observation, noise=noise(1, count=8)).actions
    assert (sampled - chunk.actions)[..., active].square().mean() < 0.05 * chunk.actions[..., active].square().mean()


def test_every_parameter_learns(any_policy, belief):
    output = any_policy(make_observation(), make_chunk(), belief, noise=noise())
    parts = (output.action_losses, output.contexts, output.action_tokens)
    sum(part.square().sum() for part in parts).backward()
    idle = {name for name, parameter in any_policy.named_parameters() if parameter.grad is None}
    any_policy.zero_grad(set_to_none=True)
    last = f"trunk.und.layers.{any_policy.config.trunk.num_layers - 1}."
    unused = ("self_attn.q_", "self_attn.o_", "mlp.", "post_attention_layernorm.")
    assert idle == {name for name, parameter in any_policy.named_parameters() if not parameter.requires_grad}
    assert idle == {name for name in idle if name.startswith(tuple(last + part for part in unused))}


def test_bfloat16_autocast_runs_close_to_float32(any_policy, belief):
    arguments = (make_observation(), make_chunk(), belief)
    exact = any_policy(*arguments, noise=noise()).action_losses
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = any_policy(*arguments, noise=noise())
        any_policy.predict(arguments[0], belief, noise=noise())
    assert output.action_losses.dtype == torch.float32
    torch.testing.assert_close(output.action_losses, exact, rtol=0.05, atol=0.05)


def test_checkpointed_activations_give_the_same_gradients():
    config = small_config()
    gradients = []
    for enabled in (False, True):
        trunk = dataclasses.replace(config.trunk, checkpoint_activations=enabled)
        policy = build_policy(dataclasses.replace(config, trunk=trunk), seed=0)
        policy(make_observation(), make_chunk(), noise=noise()).action_losses.sum().backward()
        gradients.append([p.grad for p in policy.parameters() if p.grad is not None])
    for plain, checkpointed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, checkpointed)


def test_the_tower_serves_as_target_encoder(flow_policy):
    encoder = EMATargetEncoder(flow_policy.vision_tower, num_prefix_tokens=flow_policy.num_prefix_tokens)
    images = make_observation().images
    targets = encoder(images)
    assert encoder.block_name == "model.blocks.0"
    tower = flow_policy.vision_tower
    model = tower.model
    tokens = model.blocks[0](model.norm_pre(model._pos_embed(model.patch_embed(tower.normalise(images.flatten(0, 1))))))
    expected = tokens[:, 1:].mean(dim=1).view(3, 2, -1).mean(dim=1)
    torch.testing.assert_close(targets, expected)


def test_images_are_resized_and_normalised(flow_policy):
    tower = flow_policy.vision_tower
    grey = torch.full((1, 3, 48, 64), 128, dtype=torch.uint8)
    pixels = tower.normalise(grey)
    assert pixels.shape == (1, 3, 32, 32)
    wanted = (128 / 255 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    torch.testing.assert_close(pixels[0, :, 5, 7], wanted, rtol=1e-4, atol=1e-4)


def test_augmentation_runs_in_training_alone_and_by_the_keys():
    config = small_config()
    vision = dataclasses.replace(config.vision, augment=True)
    policy = build_policy(dataclasses.replace(config, vision=vision), seed=0)
    arguments = (make_observation(), make_chunk())
    policy.train()
    first, again, other = (policy(*arguments, noise=noise(seed)).contexts for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    policy.eval()
    first, other = (policy(*arguments, noise=noise(seed)).contexts for seed in (0, 1))
    assert torch.equal(first, other)


def test_each_image_is_augmented_by_its_own_sample_and_view():
    images = make_observation(3, views=2).images
    together = augment(images, noise(4))
    for row in range(3):
        alone = augment(images[[row], :1], Noise(noise(4).keys[[row]]))
        torch.testing.assert_close(alone[0, 0], together[row, 0])
    same = augment(images[:1, :1].expand(3, 2, -1, -1, -1), noise(4)).flatten(0, 1)
    assert all(not torch.equal(same[one], same[other]) for one in range(6) for other in range(one))


@torch.no_grad()
def test_the_loss_of_a_sample_has_its_own_noise(any_policy, belief):
    observation, chunk, keys = make_observation(), make_chunk(), noise(2).keys
    losses = any_policy.forward_chunk(observation, chunk, belief, noise=Noise(keys)).action_losses
    order = [2, 0]
    turned = ActionChunk(chunk.actions[order], action_is_pad=chunk.action_is_pad[order])
    forward = any_policy.forward_chunk(take(observation, order), turned, belief[order], noise=Noise(keys[order]))
    torch.testing.assert_close(forward.action_losses, losses[order], rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match=r"keys of shape \(1,\) for 3 samples"):
        any_policy.predict(observation, belief, noise=Noise(keys[:1]))


def test_building_depends_on_the_seed_alone():
    torch.manual_seed(1)
    first = build_policy(small_config(vision=False), seed=0).state_dict()
    torch.manual_seed(2)
    second = build_policy(small_config(vision=False), seed=0).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_wrong_inputs_are_named(flow_policy):
    observation, chunk = make_observation(), make_chunk()
    with pytest.raises(ShapeError, match=r"belief has shape \(3, 2, 32\); this policy takes \(3, 3, 32\)"):
        flow_policy(observation, chunk, torch.zeros(3, 2, 32), noise=noise())
    short = ActionChunk(chunk.actions[:, :2], action_is_pad=chunk.action_is_pad[:, :2])
    with pytest.raises(ShapeError, match="chunk_length"):
        flow_policy(observation, short, noise=noise())
    blind = dataclasses.replace(
        observation, images=observation.images[:, :0], view_mask=torch.ones(3, 0, dtype=torch.bool)
    )
    with pytest.raises(ShapeError, match="no view"):
        flow_policy(blind, chunk, noise=noise())
    long = dataclasses.replace(observation, instructions=("x" * 300,) * 3)
    with pytest.raises(DataError, match="300 tokens; the limit is 256"):
        flow_policy(long, chunk, noise=noise())
    with pytest.raises(ShapeError, match="states has shape"):
        dataclasses.replace(observation, states=torch.zeros(3, 7))
    with pytest.raises(ConfigError, match="did you mean 'vit_tiny_patch16_224'"):
        build_policy(dataclasses.replace(small_config(), vision=VisionConfig(tower="vit_tiny_patch16_24")), seed=0)
    with pytest.raises(ConfigError, match="did you mean 'diffusion'"):
        small_config(head="difusion")
