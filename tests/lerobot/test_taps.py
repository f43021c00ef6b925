"""What PTR reads from each policy is what the paper means by it, and the policy is none the wiser."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from ptr_robot.lerobot.taps import captured_outputs
from ptr_robot.lerobot.window import Window
from ptr_robot.method import ChunkForward, ScorerConfig, WeightConfig
from tests.lerobot.small_policies import (
    ACT,
    ACTION,
    BATCH,
    BELIEVING_SMOLVLA,
    CAMERA,
    KINDS,
    NAMES,
    SIDE,
    STATE,
    VLA,
    Kind,
    base_batch,
    make_batch,
    make_pair,
)

PLAIN = {"scorer": ScorerConfig(enabled=False), "weights": WeightConfig(alpha=0.0, warmup_steps=0)}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=NAMES)
TAPS = dict(zip([*NAMES, "belief", "vla"], [*KINDS, BELIEVING_SMOLVLA, VLA], strict=True))
every_tap = pytest.mark.parametrize("kind", TAPS.values(), ids=TAPS)
# π0.5 writes the state into its prompt.
every_tap_without_state = pytest.mark.parametrize("kind", [TAPS[name] for name in TAPS if name != "pi05"])


def tapped(policy, batch) -> tuple[ChunkForward, torch.Tensor]:
    """What PTR is given for a batch, with the policy's random numbers fixed."""
    seen = {}
    handle = policy.ptr.method.register_forward_pre_hook(lambda _module, inputs: seen.update(inputs=inputs))
    torch.manual_seed(7)
    with torch.no_grad():
        policy(batch)
    handle.remove()
    chunk, samples = seen["inputs"]
    return chunk, samples.targets


def changed_future(kind: Kind, batch):
    """The same batch with another consequence."""
    other = dict(batch)
    for key in (STATE, CAMERA, SIDE):
        other[key] = batch[key].clone()
        other[key][:, -1] = torch.rand_like(other[key][:, -1])
    return other


@every_tap
def test_the_future_frame_reaches_targets_and_nothing_else(kind):
    policy, _ = make_pair(kind)
    batch = make_batch(kind, policy.config)
    chunk, targets = tapped(policy, batch)
    other, other_targets = tapped(policy, changed_future(kind, batch))
    for field in fields(ChunkForward):
        torch.testing.assert_close(getattr(other, field.name), getattr(chunk, field.name), rtol=0, atol=0)
    assert not torch.allclose(other_targets, targets)


@every_tap_without_state
def test_the_first_context_of_a_sample_has_not_read_the_state(kind):
    policy, _ = make_pair(kind)
    batch = make_batch(kind, policy.config)
    state = batch[STATE].clone()
    state[:, 0] += 1.0
    (chunk, _), (other, _) = tapped(policy, batch), tapped(policy, batch | {STATE: state})
    step = policy.config.ptr.chunks  # later ones know it by their belief
    torch.testing.assert_close(other.contexts[::step], chunk.contexts[::step], rtol=0, atol=0)
    assert (other.action_losses[::step] != chunk.action_losses[::step]).all()


@every_tap
def test_contexts_do_not_know_the_recorded_actions(kind):
    policy, _ = make_pair(kind)
    batch = make_batch(kind, policy.config)
    chunk, _ = tapped(policy, batch)
    actions = batch[ACTION].clone()
    actions[:, -kind.chunk_length :] = 0.3  # the last chunk: a belief token may know those before
    other, _ = tapped(policy, batch | {ACTION: actions})
    torch.testing.assert_close(other.contexts, chunk.contexts, rtol=0, atol=0)
    assert not torch.allclose(other.action_tokens, chunk.action_tokens)
    assert not torch.allclose(other.action_losses, chunk.action_losses)


@every_tap
def test_contexts_know_the_present_images(kind):
    policy, _ = make_pair(kind)
    policy.eval()  # without dropout
    batch = make_batch(kind, policy.config)
    chunk, _ = tapped(policy, batch)
    other, _ = tapped(policy, batch | {CAMERA: torch.rand_like(batch[CAMERA])})
    assert not torch.allclose(other.contexts, chunk.contexts)


@every_tap
def test_padded_actions_count_nowhere(kind):
    policy, _ = make_pair(kind)
    batch = make_batch(kind, policy.config)
    actions = batch[ACTION].clone()
    actions[batch["action_is_pad"]] = 50.0
    chunk, _ = tapped(policy, batch)
    other, _ = tapped(policy, batch | {ACTION: actions})
    expected = batch["action_is_pad"].unflatten(1, (-1, kind.chunk_length)).flatten(0, 1)
    torch.testing.assert_close(chunk.action_is_pad, expected)
    count = BATCH - 1 if kind.sees_padding else len(expected)
    torch.testing.assert_close(other.action_losses[:count], chunk.action_losses[:count])


@every_kind
def test_without_scores_loss_and_gradients_are_the_base_policys(kind):
    policy, base = make_pair(kind, **PLAIN)
    batch = make_batch(kind, policy.config, padded=kind.base_masks_padding)
    torch.manual_seed(3)
    loss, _ = policy(batch)
    loss.backward()
    torch.manual_seed(3)
    expected, _ = base(base_batch(kind, policy.config, batch))
    expected.backward()
    torch.testing.assert_close(loss, expected)
    compare_gradients(policy, base)


@every_kind
def test_with_uniform_weights_and_a_detached_scorer_gradients_are_the_base_policys(kind):
    scorer = ScorerConfig(hidden_dim=16, detach_features=True)
    policy, base = make_pair(kind, scorer=scorer, weights=WeightConfig(alpha=0.0, warmup_steps=0))
    batch = make_batch(kind, policy.config, padded=kind.base_masks_padding)
    torch.manual_seed(3)
    loss, numbers = policy(batch)
    loss.backward()
    torch.manual_seed(3)
    expected, _ = base(base_batch(kind, policy.config, batch))
    expected.backward()
    assert numbers["action_loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert loss.item() > expected.item()
    compare_gradients(policy, base)


def compare_gradients(policy, base) -> None:
    own = dict(policy.named_parameters())
    for name, parameter in base.named_parameters():
        gradient = own[name].grad
        if parameter.grad is None:
            assert gradient is None or not gradient.any(), name
        else:
            torch.testing.assert_close(gradient, parameter.grad, rtol=1e-4, atol=1e-5, msg=name)


@every_kind
def test_names_and_values_are_the_base_policys_and_the_rest_is_under_ptr(kind):
    policy, base = make_pair(kind)
    own, expected = policy.state_dict(), base.state_dict()
    assert {name for name in own if not name.startswith("ptr.")} == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(own[name], value, rtol=0, atol=0)


@every_tap
def test_the_copy_of_the_tower_ends_after_its_block(kind):
    policy, _ = make_pair(kind)
    encoder = policy.ptr.method.target_encoder
    assert encoder.block_name == kind.vision_block
    names = [name for name, _ in encoder.tower.named_parameters()] + [name for name, _ in encoder.tower.named_buffers()]
    assert names
    assert not [name for name in names if kind.dropped in name]


@every_tap
def test_the_copy_starts_as_the_loaded_tower_and_follows_it(kind):
    policy, _ = make_pair(kind)
    with torch.no_grad():
        for parameter in policy._vision_tower().parameters():
            parameter.mul_(1.05)  # as if a base checkpoint had been loaded
    policy(make_batch(kind, policy.config))
    online = dict(policy._vision_tower().named_parameters())
    copies = dict(policy.ptr.method.target_encoder.tower.named_parameters())
    for name, parameter in copies.items():
        torch.testing.assert_close(parameter, online[name].float())
    with torch.no_grad():
        for parameter in online.values():
            parameter.add_(1.0)
    policy.update()
    for name, parameter in copies.items():
        torch.testing.assert_close(parameter, (online[name] - 0.999).float(), rtol=1e-4, atol=1e-4)


@every_tap
def test_every_head_of_ptr_learns(kind):
    policy, _ = make_pair(kind)
    for seed in range(2):  # the second batch finds the first one's targets in the queue
        policy.zero_grad()
        loss, _ = policy(make_batch(kind, policy.config, seed=seed))
        loss.backward()
        policy.update()
    trained = {id(p) for group in policy.get_optim_params() for p in group["params"]}
    for name, parameter in policy.ptr.named_parameters():
        assert (id(parameter) in trained) == parameter.requires_grad, name
        assert not parameter.requires_grad or parameter.grad is not None, name
    assert policy.ptr.method.step == 2


def test_the_window_is_cut_at_the_present():
    policy, _ = make_pair(ACT)
    batch = make_batch(ACT, policy.config)
    window = Window.of(batch, policy._layout)
    torch.testing.assert_close(window.chunks[0][STATE], batch[STATE][:, 0])
    torch.testing.assert_close(window.frames[1][CAMERA], batch[CAMERA][:, 1])
    assert window.has_target.flatten().tolist() == [True] * (BATCH - 1) + [False]


@pytest.mark.parametrize(("changes", "num_passes"), [({}, 2), (PLAIN, 1)], ids=["with scorer", "without"])
def test_act_encodes_a_second_time_only_for_the_scorer(changes, num_passes):
    policy, _ = make_pair(ACT, **changes)
    with captured_outputs(policy.model.encoder) as passes:
        policy(make_batch(ACT, policy.config))
    assert len(passes) == num_passes
