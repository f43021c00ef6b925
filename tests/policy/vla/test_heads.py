"""Action heads against plain loops and closed forms."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from scipy import stats

from ptr_robot.policy.noise import Purpose, places
from ptr_robot.policy.vla.config import AutoregressiveConfig, DiffusionConfig, FlowConfig
from ptr_robot.policy.vla.heads.autoregressive import AutoregressiveHead, from_bins, to_bins
from ptr_robot.policy.vla.heads.base import per_sample_mean
from ptr_robot.policy.vla.heads.diffusion import DiffusionHead, denoise
from ptr_robot.policy.vla.heads.flow import FlowHead, draw_sigmas, integrate
from tests.policy.conftest import ACTION_SLOTS, LENGTH, generator, make_chunk, noise, slots_mask


class EchoDecoder:
    """Stands in for the trunk where a test needs to know the hidden states: they are the tokens."""

    def states(self, tokens):
        return tokens

    extend = states


@torch.no_grad()
def test_the_flow_loss_is_the_papers_equation_computed_by_hand():
    head = FlowHead(FlowConfig(), width=16)
    chunk, mask = make_chunk(2), slots_mask(2, ACTION_SLOTS)
    mask[1, 18] = False  # the second robot has no gripper
    steps = torch.tensor([[True, True, False, False], [True, True, True, True]])
    prepared = head.prepare(chunk.actions, mask, noise(3, count=2))
    losses = per_sample_mean(head.errors(prepared.tokens, prepared, mask), ~steps, mask)

    sigmas = draw_sigmas(noise(3, count=2), head.config)
    epsilon = noise(3, count=2).normal(Purpose.ACTIONS, places(LENGTH, 200))
    for row in range(2):
        total, count = 0.0, 0
        noised = torch.zeros(LENGTH, 200)
        for step in range(LENGTH):
            for slot in mask[row].nonzero().flatten():
                clean, random = chunk.actions[row, step, slot], epsilon[row, step, slot]
                noised[step, slot] = sigmas[row] * clean + (1 - sigmas[row]) * random
        velocity = head.output(head.embedder(noised.unsqueeze(0), sigmas[row : row + 1]))[0]
        for step in steps[row].nonzero().flatten():
            for slot in mask[row].nonzero().flatten():
                wanted = chunk.actions[row, step, slot] - epsilon[row, step, slot]
                total += float((velocity[step, slot] - wanted) ** 2)
                count += 1
        assert losses[row].item() == pytest.approx(total / count, rel=1e-4)


def test_sigma_has_the_density_of_the_shifted_beta():
    config = FlowConfig()
    sigmas = draw_sigmas(noise(0, count=20_000), config).numpy()
    # P(σ ≤ x) = P(u ≥ s (1 − x)) = 1 − (s (1 − x))^1.5 by hand from u ~ Beta(1.5, 1)
    assert stats.kstest(sigmas, lambda x: 1 - (0.999 * (1 - x)) ** 1.5).pvalue > 0.01
    assert stats.kstest(0.999 * (1 - sigmas), stats.beta(1.5, 1).cdf).pvalue > 0.01
    assert sigmas.mean() == pytest.approx(0.4, abs=0.01)  # skewed towards noise, not towards the action


@pytest.mark.parametrize("num_steps", [1, 4, 7])
def test_euler_is_exact_for_a_constant_field(num_steps):
    start, velocity = torch.randn(2, 3), torch.randn(2, 3)
    seen = []

    def field(sample, sigma):
        seen.append(sigma)
        return velocity

    torch.testing.assert_close(integrate(field, start, num_steps), start + velocity)
    assert seen == [step / num_steps for step in range(num_steps)]


@pytest.mark.parametrize("prediction", ["v_prediction", "epsilon", "sample"])
def test_ddim_recovers_a_point_from_the_exact_predictor(prediction):
    config = DiffusionConfig(prediction=prediction)
    point, noise = torch.randn(2, 3), torch.randn(2, 3)
    cumulative = DiffusionHead(config, width=8)._scheduler.alphas_cumprod

    def exact(sample, step):
        signal, spread = cumulative[step].sqrt(), (1 - cumulative[step]).sqrt()
        epsilon = (sample - signal * point) / spread
        answers = {"epsilon": epsilon, "sample": point, "v_prediction": signal * epsilon - spread * point}
        return answers[prediction]

    torch.testing.assert_close(denoise(exact, noise, config), point, rtol=1e-3, atol=1e-3)


def test_ddim_maps_noise_to_a_gaussian_of_the_right_mean_and_spread():
    config = DiffusionConfig(num_sampling_steps=100, prediction="epsilon")
    mean, spread = 0.7, 0.3
    cumulative = DiffusionHead(config, width=8)._scheduler.alphas_cumprod

    def posterior_noise(sample, step):
        signal, rest = cumulative[step].sqrt(), 1 - cumulative[step]
        return rest.sqrt() * (sample - signal * mean) / (cumulative[step] * spread**2 + rest)

    samples = denoise(posterior_noise, torch.randn(20_000, generator=generator(1)), config)
    assert samples.mean().item() == pytest.approx(mean, abs=0.02)
    assert samples.std().item() == pytest.approx(spread, rel=0.05)


def test_the_diffusion_loss_computed_by_hand():
    head = DiffusionHead(DiffusionConfig(prediction="v_prediction"), width=16)
    chunk, mask = make_chunk(3), slots_mask(3, ACTION_SLOTS)
    prepared = head.prepare(chunk.actions, mask, noise(2))

    steps = (noise(2).uniform(Purpose.TIME, places()) * 100).floor()
    epsilon = noise(2).normal(Purpose.ACTIONS, places(LENGTH, 200))
    for row in range(3):
        # cosine schedule by hand: ᾱ is the running product of 1 − β, β from the squared cosine, at most 0.999
        running = 1.0
        for index in range(int(steps[row]) + 1):
            running *= 1 - min(1 - _cosine((index + 1) / 100) / _cosine(index / 100), 0.999)
        for slot in range(200):
            active = slot in ACTION_SLOTS
            clean, random = chunk.actions[row, :, slot], epsilon[row, :, slot] * active
            velocity = running**0.5 * random - (1 - running) ** 0.5 * clean
            torch.testing.assert_close(prepared.targets[row, :, slot], velocity, rtol=1e-4, atol=1e-4)


def _cosine(time: float) -> float:
    return float(torch.cos(torch.tensor((time + 0.008) / 1.008 * torch.pi / 2, dtype=torch.float64)) ** 2)


def test_bins_return_each_value_within_half_a_bin():
    config = AutoregressiveConfig(num_bins=64, bin_limit=2.0)
    values = torch.linspace(-2, 2, 10_001)
    errors = (from_bins(to_bins(values, config), config) - values).abs()
    assert errors.max() <= 2.0 / 64 + 1e-6
    assert set(to_bins(values, config).tolist()) == set(range(64))
    clipped = from_bins(to_bins(torch.tensor([-9.0, 9.0]), config), config)
    torch.testing.assert_close(clipped, torch.tensor([-2 + 1 / 32, 2 - 1 / 32]))


def test_the_autoregressive_loss_is_the_cross_entropy_of_each_active_slot():
    head = AutoregressiveHead(AutoregressiveConfig(num_bins=16, bin_dim=4), width=8)
    chunk, mask = make_chunk(2), slots_mask(2, ACTION_SLOTS)
    mask[0, 18] = False
    prepared = head.prepare(chunk.actions, mask, noise(count=2))
    states = torch.randn(2, LENGTH, 8, generator=generator(1))
    steps = torch.tensor([[True, True, True, False], [True, True, True, True]])
    losses = per_sample_mean(head.errors(states, prepared, mask), ~steps, mask)
    for row in range(2):
        terms = []
        for step in steps[row].nonzero().flatten():
            features = head.output(states[row, step]).view(200, 4)
            for slot in mask[row].nonzero().flatten():
                shares = head.bin_logits(features[slot]).softmax(dim=-1)
                bin_index = int((chunk.actions[row, step, slot].clamp(-3, 2.999) + 3) / 6 * 16)
                terms.append(-shares[bin_index].log().item())
        assert losses[row].item() == pytest.approx(sum(terms) / len(terms), rel=1e-4)


HEADS = [
    FlowHead(FlowConfig(), 16),
    DiffusionHead(DiffusionConfig(num_train_steps=10, num_sampling_steps=3), 16),
    AutoregressiveHead(AutoregressiveConfig(num_bins=16, bin_dim=4), 16),
    AutoregressiveHead(AutoregressiveConfig(num_bins=16, bin_dim=4, temperature=1.0), 16),
]


@pytest.mark.parametrize("head", HEADS, ids=["flow", "diffusion", "greedy", "sampled"])
def test_slots_that_a_robot_lacks_neither_enter_nor_leave(head):
    chunk, mask = make_chunk(2), slots_mask(2, ACTION_SLOTS)
    polluted = torch.where(mask.unsqueeze(1), chunk.actions, torch.full_like(chunk.actions, 7.0))
    clean, dirty = (head.prepare(actions, mask, noise(count=2)) for actions in (chunk.actions, polluted))
    torch.testing.assert_close(clean.tokens, dirty.tokens, rtol=0, atol=0)
    torch.testing.assert_close(head.embed(chunk.actions, mask), head.embed(polluted, mask), rtol=0, atol=0)
    steps = torch.ones(2, LENGTH, dtype=torch.bool)
    losses = [per_sample_mean(head.errors(p.tokens, p, mask), ~steps, mask) for p in (clean, dirty)]
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)
    sampled = head.sample(EchoDecoder(), mask, LENGTH, noise(count=2))
    assert sampled.actions.shape == (2, LENGTH, 200)
    assert sampled.actions[..., ~mask[0]].abs().max() == 0
    assert sampled.actions[..., ACTION_SLOTS].abs().min() > 0


@pytest.mark.parametrize("head", HEADS, ids=["flow", "diffusion", "greedy", "sampled"])
def test_sampling_depends_on_the_keys_alone(head):
    mask = slots_mask(2, ACTION_SLOTS)
    first, again = (head.sample(EchoDecoder(), mask, LENGTH, noise(4, count=2)).actions for _ in range(2))
    torch.testing.assert_close(first, again, rtol=0, atol=0)


def test_bins_are_chosen_with_the_probabilities_of_their_logits():
    head = AutoregressiveHead(AutoregressiveConfig(num_bins=4, temperature=2.0), width=8)
    logits = torch.tensor([0.0, 1.0, -2.0, 3.0])
    chosen = head._choose(logits.expand(20_000, 1, 2, 4), noise(5, count=20_000), torch.tensor([0, 18]))
    for slot in range(2):
        counts = torch.bincount(chosen[:, 0, slot], minlength=4)
        assert stats.chisquare(counts, (logits.double() / 2).softmax(dim=0) * 20_000).pvalue > 0.01
    assert not torch.equal(chosen[..., 0], chosen[..., 1])


def test_a_chunk_without_a_valid_step_has_a_loss_of_zero():
    mask = slots_mask(1, ACTION_SLOTS)
    losses = per_sample_mean(torch.ones(1, LENGTH, 200), torch.ones(1, LENGTH, dtype=torch.bool), mask)
    assert losses.item() == 0


def test_the_sampler_can_start_from_less_noise():
    head = FlowHead(dataclasses.replace(FlowConfig(), initial_noise=0.0), 16)
    mask = slots_mask(2, ACTION_SLOTS)
    first, other = (head.sample(EchoDecoder(), mask, LENGTH, noise(seed, count=2)).actions for seed in (0, 1))
    torch.testing.assert_close(first, other, rtol=0, atol=0)
