"""State dictionaries, precision, devices and compilation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from ptr_robot.errors import ConfigError
from ptr_robot.method import (
    PTR,
    BeliefConfig,
    ControllerConfig,
    EMATargetEncoder,
    PoolConfig,
    PTRConfig,
    ScorerConfig,
    TargetConfig,
    WeightedAccumulation,
)
from tests.method.conftest import ACTION_DIM, CONTEXT_DIM, NO_WARMUP, TARGET_DIM, make_batch, make_ptr


def full_config(folds: int = 2) -> PTRConfig:
    return PTRConfig(
        targets=TargetConfig(ema_decay=0.5),
        pool=PoolConfig(queue_size=32, max_queue_negatives=6),
        scorer=ScorerConfig(hidden_dim=8, num_folds=folds),
        weights=NO_WARMUP,
        controller=ControllerConfig(interval_steps=2, weak_accuracy=0.9, strong_accuracy=0.95),  # so that it does move
    )


def build() -> tuple[nn.Module, PTR]:
    torch.manual_seed(0)
    tower = nn.ModuleDict({"blocks": nn.Sequential(nn.Conv2d(3, TARGET_DIM, 4, 4), nn.Conv2d(TARGET_DIM, 6, 1))})
    tower.forward = tower["blocks"].forward
    encoder = EMATargetEncoder(tower, block="blocks.0")
    return tower, make_ptr(full_config(), target_encoder=encoder)


def train(tower, ptr, optimizer, steps) -> list[float]:
    losses = []
    for step in steps:
        chunk, samples = make_batch(seed=step, first_id=7 * step)
        optimizer.zero_grad()
        output = ptr(chunk, samples)
        output.loss.backward()
        optimizer.step()
        with torch.no_grad():
            next(tower.parameters()).add_(0.1)
        ptr.update(tower)
        losses.append(output.loss.item())
    return losses


def make_optimizer(ptr):
    return torch.optim.AdamW([p for p in ptr.parameters() if p.requires_grad], lr=1e-2)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    tower, ptr = build()
    uninterrupted = train(tower, ptr, make_optimizer(ptr), range(8))

    tower, first = build()
    optimizer = make_optimizer(first)
    losses = train(tower, first, optimizer, range(4))
    state = {key: value.clone() for key, value in first.state_dict().items()}
    tower_state, optimizer_state = tower.state_dict(), optimizer.state_dict()

    _, second = build()
    second.load_state_dict(state)
    optimizer = make_optimizer(second)
    optimizer.load_state_dict(optimizer_state)
    tower.load_state_dict(tower_state)
    losses += train(tower, second, optimizer, range(4, 8))
    assert losses == uninterrupted
    assert second.controller.temperature == ptr.controller.temperature != 0.12
    for name, value in ptr.state_dict().items():
        assert second.state_dict()[name].equal(value), name


def test_the_state_is_tensors_alone():
    _, ptr = build()
    assert all(isinstance(value, torch.Tensor) for value in ptr.state_dict().values())
    held = set(ptr.state_dict())
    for wanted in (
        "target_encoder.tower.blocks.0.weight",
        "pool.queue.sample_ids",
        "controller.averages",
        "_extra_state",
    ):
        assert wanted in held


def test_forward_changes_no_state_until_update():
    _, ptr = build()
    before = {name: value.clone() for name, value in ptr.state_dict().items()}
    ptr(*make_batch())
    for name, value in ptr.state_dict().items():
        torch.testing.assert_close(value, before[name], equal_nan=True, rtol=0, atol=0)


def test_evaluation_leaves_no_trace():
    ptr = make_ptr(full_config()).eval()
    ptr(*make_batch())
    ptr.update()
    assert not ptr.pool.queue.filled.any()


def test_bfloat16_autocast_keeps_scores_and_weights_in_float32():
    ptr = make_ptr(full_config(folds=1))
    chunk, samples = make_batch(seed=3)
    exact = ptr(chunk, samples)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = ptr(chunk, samples)
    assert rough.scores.dtype == rough.weights.dtype == rough.loss.dtype == torch.float32
    torch.testing.assert_close(rough.scores, exact.scores, rtol=0.1, atol=0.3)
    rough.loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in ptr.parameters())


def test_bfloat16_features_are_accepted():
    chunk, samples = make_batch()
    lowered = {k: v.bfloat16() for k, v in vars(chunk).items() if isinstance(v, torch.Tensor)}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = make_ptr()(replace(chunk, **lowered), samples)
    assert output.weights.dtype == torch.float32


def test_every_tensor_follows_the_module_to_another_device():
    _, ptr = build()
    ptr.to("meta")
    assert {value.device.type for _, value in ptr.named_parameters()} == {"meta"}
    assert {value.device.type for _, value in ptr.named_buffers()} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: the same step on another device")
def test_a_step_on_a_gpu_equals_the_step_on_the_cpu():
    ptr = make_ptr(full_config())
    chunk, samples = make_batch()
    expected = ptr(chunk, samples)
    move = lambda v: replace(v, **{k: t.cuda() for k, t in vars(v).items() if isinstance(t, torch.Tensor)})  # noqa: E731
    got = ptr.cuda()(move(chunk), move(samples))
    torch.testing.assert_close(got.weights.cpu(), expected.weights, rtol=1e-3, atol=1e-4)


def test_a_compiled_step_gives_the_same_numbers_and_compiles_once():
    """PTR runs eagerly inside a compiled step: its step count must not make the policy compile anew."""
    torch.manual_seed(0)
    policy, ptr = nn.Linear(CONTEXT_DIM, CONTEXT_DIM), make_ptr(full_config(1))
    graphs = []

    def count(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    def step(chunk, samples):
        return ptr(replace(chunk, contexts=policy(chunk.contexts)), samples)

    compiled = torch.compile(step, backend=count)
    for index in range(12):
        chunk, samples = make_batch(seed=index, first_id=5 * index)
        plain, fast = step(chunk, samples), compiled(chunk, samples)
        torch.testing.assert_close(fast.weights, plain.weights)
        torch.testing.assert_close(fast.loss, plain.loss)
        fast.loss.backward()
        ptr.update()
    assert len(graphs) <= 2


def test_building_ptr_leaves_the_global_random_numbers_alone(monkeypatch):
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda _: pytest.fail("the GPU's generator was seeded"))
    torch.default_generator.manual_seed(3)
    expected = torch.rand(4)
    torch.default_generator.manual_seed(3)
    make_ptr()
    assert torch.rand(4).equal(expected)


def test_only_steps_that_learn_are_remembered():
    ptr = make_ptr(full_config())
    with torch.no_grad():
        ptr(*make_batch())
    ptr.update()
    assert not ptr.pool.queue.filled.any()
    ptr(*make_batch())
    ptr.load_state_dict(ptr.state_dict())
    ptr.update()
    assert not ptr.pool.queue.filled.any()


def test_forgetting_update_is_noticed(monkeypatch):
    monkeypatch.setattr("ptr_robot.method.ptr.algorithm.MAX_PENDING", 3)
    ptr = make_ptr(full_config())
    for _ in range(3):
        ptr(*make_batch())
    with pytest.raises(ConfigError, match=r"3 forward passes without update\(\)"):
        ptr(*make_batch())


def test_the_configured_decay_is_what_update_uses():
    for decay, expected in ((1.0, 0.0), (0.0, 1.0), (0.75, 0.25)):
        tower, _ = build()
        encoder = EMATargetEncoder(tower, block="blocks.0")
        ptr = make_ptr(replace(full_config(), targets=TargetConfig(ema_decay=decay)), target_encoder=encoder)
        start = next(encoder.tower.parameters()).clone()
        with torch.no_grad():
            next(tower.parameters()).add_(1.0)
        ptr.update(tower)
        moved = next(encoder.tower.parameters()) - start
        torch.testing.assert_close(moved, torch.full_like(moved, expected))


def test_an_encoder_that_is_not_given_its_tower():
    _, ptr = build()
    with pytest.raises(ConfigError, match="needs the policy's vision tower"):
        ptr.update()


def test_bfloat16_features_without_autocast():
    chunk, samples = make_batch()
    lowered = {k: v.bfloat16() for k, v in vars(chunk).items() if isinstance(v, torch.Tensor)}
    output = make_ptr()(replace(chunk, **lowered), samples)
    assert output.loss.dtype == output.weights.dtype == torch.float32


def test_accumulated_micro_batches_share_one_denominator():
    """Σwℓ / Σw over both micro-batches, not the mean of two ratios."""
    ptr = make_ptr(replace(full_config(1), belief=BeliefConfig(enabled=False)))
    theta = torch.ones((), requires_grad=True)
    accumulation = WeightedAccumulation(expected_mean_weight=1.0)
    parts = []
    for seed, count in ((0, 4), (1, 9)):
        chunk, samples = make_batch(count, seed=seed)
        output = ptr(replace(chunk, action_losses=theta * chunk.action_losses), samples)
        accumulation.loss(output).backward()
        parts.append((output.weights, chunk.action_losses))
    accumulation.finish([theta])
    weights, losses = (torch.cat(values) for values in zip(*parts, strict=True))
    torch.testing.assert_close(theta.grad, (weights * losses).sum() / weights.sum())


def test_accumulation_of_one_equal_to_its_expectation_is_the_plain_gradient():
    ptr = make_ptr(full_config(1))
    chunk, samples = make_batch()
    output = ptr(chunk, samples)
    output.loss.backward()
    expected = {name: p.grad.clone() for name, p in ptr.named_parameters() if p.grad is not None}
    ptr.zero_grad()
    output = ptr(chunk, samples)
    accumulation = WeightedAccumulation(expected_mean_weight=float(output.weight_sum / output.sample_count))
    accumulation.loss(output).backward()
    accumulation.finish(ptr.parameters())
    for name, p in ptr.named_parameters():
        if name in expected:
            torch.testing.assert_close(p.grad, expected[name], rtol=1e-4, atol=1e-7)


def test_mean_weight_is_remembered_for_accumulation():
    ptr = make_ptr(full_config(1))
    output = ptr(*make_batch())
    ptr.update()
    torch.testing.assert_close(ptr.mean_weight, output.weights.mean())


def test_sizes_are_as_configured():
    ptr = make_ptr()
    assert ptr.initial_belief(3).shape == (3, 4, ACTION_DIM)
    assert ptr.scorer.heads.context.weight.shape[1] == CONTEXT_DIM


def test_micro_batches_in_which_nothing_counts_leave_no_gradient():
    """As without accumulation, where such a step's loss is zero."""
    ptr = make_ptr(replace(full_config(1), belief=BeliefConfig(enabled=False)))
    theta = torch.ones((), requires_grad=True)
    chunk, samples = make_batch(4, valid=torch.zeros(4, dtype=torch.bool))
    samples = replace(samples, prior_weights=torch.zeros(4))
    accumulation = WeightedAccumulation(expected_mean_weight=1.0)
    accumulation.loss(ptr(replace(chunk, action_losses=theta * chunk.action_losses), samples)).backward()
    accumulation.finish([theta])
    assert theta.grad == 0
