from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from ptr_robot.errors import ConfigError, NonFiniteError, PTRError, ShapeError
from ptr_robot.method import (
    BeliefConfig,
    ControllerConfig,
    PoolConfig,
    PTRConfig,
    ScorerConfig,
    TargetConfig,
    WeightConfig,
)
from tests.method.conftest import LENGTH, make_batch, make_ptr


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ScorerConfig(temperature=0.0), "scorer.temperature is 0.0; it must be positive"),
        (lambda: ScorerConfig(temperature=math.nan), "scorer.temperature is nan"),
        (lambda: ScorerConfig(num_folds=0), "scorer.num_folds is 0; it must be at least 1"),
        (lambda: ScorerConfig(logit_clamp=-1.0), "scorer.logit_clamp is -1.0"),
        (lambda: ScorerConfig(offset_discount=0.0), r"scorer.offset_discount is 0.0; it must be in \(0, 1\]"),
        (lambda: WeightConfig(alpha=1.1), r"weights.alpha is 1.1; it must be in \[0, 1\]"),
        (lambda: WeightConfig(beta=-1.0), "weights.beta is -1.0"),
        (lambda: WeightConfig(w_min=1.5), "weights.w_min is 1.5"),
        (lambda: WeightConfig(w_max=0.5), "weights.w_max is 0.5; it must be at least 1"),
        (lambda: WeightConfig(fallback="average"), "weights.fallback is 'average'"),
        (lambda: TargetConfig(kind="futur"), "targets.kind is 'futur'; did you mean 'future'"),
        (lambda: TargetConfig(ema_decay=1.5), r"targets.ema_decay is 1.5; it must be in \[0, 1\]"),
        (lambda: PoolConfig(queue_size=-1), "pool.queue_size is -1"),
        (lambda: BeliefConfig(num_tokens=0), "belief.num_tokens is 0"),
        (lambda: BeliefConfig(temperature=-1.0), "belief.temperature is -1.0"),
        (lambda: ControllerConfig(momentum=1.0), "controller.momentum is 1.0"),
        (lambda: ControllerConfig(temperature_min=0.5), "controller.temperature_min and _max"),
        (lambda: ControllerConfig(hard_accuracy_low=0.9), "controller.hard_accuracy_low and _high"),
        (lambda: PTRConfig(scorer=ScorerConfig(temperature=0.5)), "within the controller's"),
        (lambda: PTRConfig.preset("papre"), "did you mean 'paper'"),
    ],
)
def test_settings_out_of_range(build, message):
    with pytest.raises(ConfigError, match=message):
        build()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"action_losses": torch.tensor(1.0)}, r"action_losses have shape \(\); expected \(N,\)"),
        ({"contexts": torch.zeros(10, 3)}, r"contexts has shape \(10, 3\); expected \(10, 7\)"),
        ({"contexts": torch.zeros(9, 7)}, r"contexts has shape \(9, 7\); expected \(10, 7\)"),
        ({"action_tokens": torch.zeros(10, 5)}, r"action_tokens has shape \(10, 5\); expected \(10, L, 5\)"),
        ({"action_states": torch.zeros(10, 3, 5)}, r"action_states has shape \(10, 3, 5\); expected \(10, 4, 5\)"),
        ({"action_is_pad": torch.ones(10, LENGTH)}, "action_is_pad has type torch.float32; expected torch.bool"),
    ],
)
def test_wrong_shapes_of_the_policys_output(change, message):
    chunk, samples = make_batch()
    with pytest.raises(ShapeError, match=message):
        make_ptr()(replace(chunk, **change), samples)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": torch.zeros(10, 2)}, r"targets has shape \(10, 2\); expected \(10, 6\)"),
        ({"has_target": torch.ones(10)}, "has_target has type torch.float32; expected torch.bool"),
        ({"sample_ids": torch.zeros(10)}, "sample_ids has type torch.float32; expected torch.int64"),
        ({"states": torch.zeros(10, 9)}, r"states has shape \(10, 9\); expected \(10, 3\)"),
        ({"states": None}, "built with state_dim=3, but samples.states is missing"),
    ],
)
def test_wrong_shapes_of_the_samples(change, message):
    chunk, samples = make_batch()
    with pytest.raises(ShapeError, match=message):
        make_ptr()(chunk, replace(samples, **change))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["action_losses", "contexts", "action_tokens", "action_states"])
def test_non_finite_policy_outputs_are_named(name, bad):
    chunk, samples = make_batch()
    broken = getattr(chunk, name).clone()
    broken.flatten()[-1] = bad
    with pytest.raises(NonFiniteError, match=f"{name} hold NaN or infinity"):
        make_ptr()(replace(chunk, **{name: broken}), samples)


def test_non_finite_targets_are_named_only_where_they_count():
    chunk, samples = make_batch()
    row = samples.has_target.nonzero()[0, 0]
    broken = samples.targets.clone()
    broken[row, 0] = math.nan
    with pytest.raises(NonFiniteError, match="targets hold NaN or infinity where has_target is True"):
        make_ptr()(chunk, replace(samples, targets=broken))
    without = samples.has_target.clone()
    without[row] = False
    assert make_ptr()(chunk, replace(samples, targets=broken, has_target=without)).loss.isfinite()


def test_a_chunk_without_a_real_step():
    chunk, samples = make_batch()
    action_is_pad = torch.zeros(10, LENGTH, dtype=torch.bool)
    action_is_pad[4] = True
    with pytest.raises(ShapeError, match="action_is_pad is True at every step of a chunk"):
        make_ptr()(replace(chunk, action_is_pad=action_is_pad), samples)


def test_folds_without_episodes_and_belief_without_action_states():
    chunk, samples = make_batch()
    ptr = make_ptr(PTRConfig(scorer=ScorerConfig(num_folds=2)))
    with pytest.raises(ConfigError, match=r"num_folds is 2: cross-fitted heads need samples\.episode_ids"):
        ptr(chunk, replace(samples, episode_ids=None))
    with pytest.raises(ConfigError, match="belief tokens need action_states"):
        make_ptr()(replace(chunk, action_states=None), samples)


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_offsets_that_would_break_the_bounds(bad):
    chunk, samples = make_batch()
    with pytest.raises(NonFiniteError, match="offsets hold a negative, NaN or infinite value"):
        make_ptr()(chunk, replace(samples, offsets=torch.full((10,), bad)))


def test_states_that_ptr_was_not_built_for_or_that_are_nan():
    chunk, samples = make_batch()
    with pytest.raises(ShapeError, match=r"give PTR\(state_dim=3\)"):
        make_ptr(state_dim=0)(chunk, samples)
    with pytest.raises(NonFiniteError, match="states hold NaN"):
        make_ptr()(chunk, replace(samples, states=samples.states * math.nan))


def test_samples_that_do_not_divide_into_segments():
    with pytest.raises(ShapeError, match="10 samples cannot be segments of 3 chunks"):
        make_ptr().segment(lambda *_: None, make_batch()[1], num_chunks=3)


def test_an_encoder_that_is_missing():
    with pytest.raises(ConfigError, match="has no target_encoder"):
        make_ptr().encode(torch.zeros(1, 1, 3, 8, 8))


@pytest.mark.parametrize("count", [1, 2, 10])
def test_no_valid_target_at_all_is_uniform_supervision(count):
    chunk, samples = make_batch(count, valid=torch.zeros(count, dtype=torch.bool), grad=True)
    output = make_ptr()(chunk, samples)
    assert (output.weights == 1).all()
    assert output.identification_loss == output.ranking_loss == 0
    output.loss.backward()
    assert chunk.contexts.grad.equal(torch.zeros_like(chunk.contexts))


def test_every_error_is_of_one_family():
    for kind in (ConfigError, ShapeError, NonFiniteError):
        assert issubclass(kind, PTRError)


@pytest.mark.parametrize("name", ["action_losses", "contexts", "action_tokens", "action_states"])
def test_what_padding_rows_hold_is_nobodys_concern(name):
    """Not even NaN: the loss and all gradients are those of a batch with zeros there."""
    chunk_is_pad = torch.arange(10) >= 8
    results = []
    for filling in (0.0, float("nan")):
        chunk, samples = make_batch(grad=True)
        values = getattr(chunk, name).detach().clone()
        values[chunk_is_pad] = filling
        values.requires_grad_()
        ptr = make_ptr()
        output = ptr(replace(chunk, **{name: values}), replace(samples, chunk_is_pad=chunk_is_pad))
        output.loss.backward()
        results.append([output.loss, values.grad, *(p.grad for p in ptr.parameters() if p.grad is not None)])
    for clean, dirty in zip(*results, strict=True):
        assert clean.equal(dirty)
        assert clean.isfinite().all()
