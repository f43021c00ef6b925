from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from ptr_robot.errors import ConfigError, ShapeError
from ptr_robot.method import PTRConfig, ScorerConfig, WeightConfig, diagnose
from ptr_robot.method.heads import channel_inputs, instruction_codes
from ptr_robot.method.ptr.config import ControllerConfig
from ptr_robot.method.ptr.weights import ExponentialWeightMap
from tests.method.conftest import CONTEXT_DIM, TARGET_DIM, make_batch, make_ptr

RECORDED = 8
ALL = ("transition", "outcome", "action", "instruction")


def robust_config(*, folds: int = 2, interval: int = 1, **weights) -> PTRConfig:
    return PTRConfig(
        scorer=ScorerConfig(channels=ALL[1:], num_folds=folds, hidden_dim=8, temperature=0.1),
        weights=WeightConfig(**({"map": "populations", "warmup_steps": 0} | weights)),
        controller=ControllerConfig(enabled=False, interval_steps=interval),
    )


def build(config: PTRConfig, num_episodes: int = 100, **extra):
    return make_ptr(config, action_target_dim=RECORDED, num_episodes=num_episodes, **extra)


def batch(count: int = 10, **extra):
    chunk, samples = make_batch(count, **extra)
    random = torch.Generator().manual_seed(extra.get("seed", 0) + 99)
    return chunk, replace(samples, action_targets=torch.randn(count, RECORDED, generator=random))


def test_instruction_codes_are_unit_vectors_that_tell_tasks_apart():
    codes = instruction_codes(torch.arange(50))
    torch.testing.assert_close(codes.norm(dim=1), torch.ones(50))
    products = (codes @ codes.T).fill_diagonal_(0).abs()
    assert products.max() < 0.85
    assert torch.equal(instruction_codes(torch.tensor([7])), instruction_codes(torch.tensor([7])))


def test_channels_never_see_what_they_identify():
    """Changing the identified thing changes no input of its channel."""
    chunk, samples = batch()
    other_targets = replace(samples, targets=samples.targets.roll(1, 0))
    other_actions = replace(samples, action_targets=samples.action_targets.roll(1, 0))
    other_tasks = replace(samples, task_ids=samples.task_ids + 5)
    for channel, changed in (("outcome", other_targets), ("action", other_actions), ("instruction", other_tasks)):
        before, after = (channel_inputs(channel, chunk.contexts, given) for given in (samples, changed))
        assert torch.equal(before, after), channel
    contexts = chunk.contexts + 1.0 * torch.arange(CONTEXT_DIM)  # the context has read the instruction
    assert torch.equal(
        channel_inputs("instruction", contexts, samples), channel_inputs("instruction", chunk.contexts, samples)
    )


def test_scores_of_all_channels_against_plain_loops():
    config = replace(robust_config(folds=1), weights=WeightConfig(warmup_steps=0))
    config = replace(config, scorer=replace(config.scorer, channels=ALL))
    ptr = build(config).eval()
    chunk, samples = batch(valid=torch.ones(10, dtype=torch.bool))
    with torch.no_grad():
        output = ptr(chunk, samples)
        expected = torch.zeros(10)
        for channel in ALL:
            if channel == "transition":
                query = ptr.scorer.heads(chunk.contexts, chunk.action_tokens.mean(dim=1))[0]
            else:
                query = ptr.scorer.channels[channel](channel_inputs(channel, chunk.contexts, samples))[0]
            things = {
                "action": F.normalize(samples.action_targets, dim=1),
                "instruction": instruction_codes(samples.task_ids),
            }.get(channel, samples.targets)
            for row in range(10):
                candidates = [row]
                for other in range(10):
                    is_other = channel != "instruction" or samples.task_ids[other] != samples.task_ids[row]
                    if other != row and is_other:
                        candidates.append(other)
                logits = [max(-20.0, min(20.0, float(query[row] @ things[other]) / 0.1)) for other in candidates]
                total = sum(math.exp(logit) for logit in logits)
                expected[row] += math.log(math.exp(logits[0]) / total * len(candidates))
    torch.testing.assert_close(output.scores, expected, atol=1e-3, rtol=1e-4)


def test_one_instruction_is_no_evidence():
    ptr = build(robust_config(folds=1)).eval()
    chunk, samples = batch(valid=torch.ones(10, dtype=torch.bool))
    only = replace(samples, task_ids=torch.zeros_like(samples.task_ids))
    with torch.no_grad():
        evidence = ptr._identify(chunk, only, ptr._tokenize(chunk, None), _layout(10))[0]
    assert torch.equal(evidence.channel_scores[:, 2], torch.zeros(10))


def _layout(count: int):
    from ptr_robot.method.distributed import RankLayout

    return RankLayout(0, (count,))


def test_gradients_of_the_channels_stop_at_the_heads():
    ptr = build(robust_config())
    chunk, samples = batch(grad=True)
    ptr(chunk, samples).auxiliary_loss.backward()
    assert chunk.contexts.grad is None or not chunk.contexts.grad.any()
    assert all(head.first.weight.grad.abs().sum() > 0 for head in ptr.scorer.channels.values())


def test_faulty_episodes_lose_their_weight_without_labels():
    """Four in ten episodes record actions that have nothing to do with their context."""
    ptr = build(robust_config(interval=30), num_episodes=40)
    optimizer = torch.optim.AdamW(ptr.parameters(), lr=1e-2)
    mixing = torch.randn(CONTEXT_DIM, RECORDED, generator=torch.Generator().manual_seed(1))
    consequence = torch.randn(CONTEXT_DIM, TARGET_DIM, generator=torch.Generator().manual_seed(2))
    is_faulty = torch.arange(40) % 5 < 2
    for step in range(90):
        chunk, samples = batch(64, seed=step, valid=torch.ones(64, dtype=torch.bool))
        episodes = torch.randint(0, 40, (64,), generator=torch.Generator().manual_seed(step))
        noise = torch.randn(64, RECORDED, generator=torch.Generator().manual_seed(1000 + step))
        actions = torch.where(is_faulty[episodes].unsqueeze(1), 3 * noise, chunk.contexts @ mixing)
        samples = replace(
            samples,
            episode_ids=episodes,
            action_targets=actions,
            targets=F.normalize(chunk.contexts @ consequence, dim=1),
            states=torch.zeros_like(samples.states),
        )
        optimizer.zero_grad()
        output = ptr(chunk, samples)
        output.loss.backward()
        optimizer.step()
        ptr.update()
    weights = ptr.episodes.weights
    assert weights[is_faulty].mean() < 0.1
    assert weights[~is_faulty].mean() > 0.9
    assert torch.equal(output.weights, output.weights.clamp(0, 1))


def test_prior_weights_are_factors_and_zero_leaves_a_sample_out():
    chunk, samples = make_batch(6, grad=True)
    ptr = make_ptr(PTRConfig.preset("sft"))
    prior = torch.tensor([1.0, 2.0, 0.0, 1.0, 0.5, 1.0])
    output = ptr(chunk, replace(samples, prior_weights=prior))
    assert torch.equal(output.weights, prior)
    torch.testing.assert_close(output.action_loss, (prior * chunk.action_losses).sum() / prior.sum())
    output.loss.backward()
    assert chunk.action_losses.grad[2] == 0


def test_the_placebo_hands_the_same_weights_to_other_samples():
    unclipped = WeightConfig(warmup_steps=0, w_min=0.0, w_max=float("inf"))  # no two weights are alike
    config = PTRConfig(scorer=ScorerConfig(hidden_dim=8), weights=unclipped)
    placebo = replace(config, weights=replace(config.weights, permute=True))
    chunk, samples = make_batch(12, valid=torch.ones(12, dtype=torch.bool))
    plain, permuted = (make_ptr(each)(chunk, samples).weights for each in (config, placebo))
    assert torch.equal(plain.sort().values, permuted.sort().values)
    assert not (plain == permuted).any()


def test_what_is_missing_is_named():
    with pytest.raises(ConfigError, match="action_target_dim"):
        make_ptr(robust_config())
    with pytest.raises(ConfigError, match="num_episodes"):
        make_ptr(robust_config(), action_target_dim=RECORDED)
    with pytest.raises(ConfigError, match=r"a channel of scorer\.channels is 'outcom'; did you mean 'outcome'"):
        ScorerConfig(channels=("outcom",))
    with pytest.raises(ConfigError, match=r"scorer\.channels"):
        ScorerConfig(channels=())
    chunk, samples = make_batch()
    with pytest.raises(ShapeError, match="action_targets is missing"):
        build(robust_config())(chunk, samples)
    chunk, samples = batch()
    with pytest.raises(ConfigError, match="episode_ids"):
        build(robust_config())(chunk, replace(samples, episode_ids=None))


def test_a_saved_run_keeps_its_episodes():
    ptr = build(robust_config())
    for step in range(3):
        ptr(*batch(seed=step)).loss.backward()
        ptr.update()
    copy = build(robust_config())
    copy.load_state_dict(ptr.state_dict())
    assert torch.equal(copy.episodes.means, ptr.episodes.means)
    assert torch.equal(copy.episodes.counts, ptr.episodes.counts)
    assert ptr.episodes.counts.sum() > 0


def test_pooled_means_against_plain_loops():
    ptr = build(robust_config(), num_episodes=4)
    means, counts = [[0.0] * 3 for _ in range(4)], [0] * 4
    random = torch.Generator().manual_seed(0)
    for _ in range(20):
        episodes = torch.randint(0, 4, (30,), generator=random)
        scores = torch.randn(30, 3, generator=random)
        ptr.episodes.observe(episodes, torch.zeros_like(episodes), scores)
        for episode in range(4):
            rows = [scores[i] - scores.mean(0) for i in range(30) if episodes[i] == episode]
            if rows:
                counts[episode] += len(rows)
                share = min(1.0, len(rows) / min(counts[episode], 128))
                average = torch.stack(rows).mean(0)
                means[episode] = [m + share * (float(a) - m) for m, a in zip(means[episode], average, strict=True)]
    torch.testing.assert_close(ptr.episodes.means, torch.tensor(means), atol=1e-5, rtol=1e-4)


def test_weights_of_populations_keep_the_bounds_that_are_recorded():
    ptr = build(robust_config(), num_episodes=10)
    ptr.episodes.weights.copy_(torch.linspace(0, 1, 10))
    chunk, samples = batch(16)
    samples = replace(samples, episode_ids=torch.arange(16) % 10)
    numbers = diagnose(ptr, ptr(chunk, samples), samples)
    assert numbers.ratio_min == numbers.ratio_low == 0
    assert numbers.ratio_max <= numbers.ratio_high + 1e-6
    assert numbers.weight_histogram.edges[0] == 0


@pytest.mark.parametrize("unread", [{"alpha": 0.0}, {"w_max": 8.0}, {"fallback": "mean"}, {"offset_discount": 0.9}])
def test_settings_that_populations_do_not_read_are_refused(unread):
    (name,) = unread
    with pytest.raises(ConfigError, match=rf"weights.{name} is .*; the map 'populations' does not read it"):
        robust_config(**unread)


def test_populations_refuse_another_map_and_episodes_without_a_place():
    with pytest.raises(ConfigError, match=r"weights.map is populations, and a weight_map is given too"):
        build(robust_config(), weight_map=ExponentialWeightMap.from_config(WeightConfig()))
    chunk, samples = batch(4)
    with pytest.raises(ConfigError, match=r"episode_ids run from 0 to 3, but PTR was built with num_episodes=3"):
        build(robust_config(), num_episodes=3)(chunk, replace(samples, episode_ids=torch.arange(4)))
