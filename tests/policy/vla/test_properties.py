"""Properties that hold for any layout, any mask and any bins."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ptr_robot.policy.vla.config import AutoregressiveConfig
from ptr_robot.policy.vla.heads.autoregressive import from_bins, to_bins
from ptr_robot.policy.vla.heads.base import per_sample_mean
from ptr_robot.policy.vla.sequence import Part, action_mask, arrange, joint_mask

masks = st.lists(st.booleans(), min_size=1, max_size=4)


def part(valid: list[bool], *, is_causal: bool, is_gen: bool = False) -> Part:
    return Part(torch.zeros(1, len(valid), 1), torch.tensor([valid]), is_causal=is_causal, is_gen=is_gen)


@settings(max_examples=50)
@given(images=masks, text=masks, belief=st.lists(st.just(True), max_size=3), steps=masks, is_causal=st.booleans())
def test_the_mask_follows_the_rule_token_by_token(images, text, belief, steps, is_causal):
    context = arrange(
        [
            part([True], is_causal=True),
            part(images, is_causal=False),
            part([True, True], is_causal=False, is_gen=True),
            part(text, is_causal=True),
            part(belief or [False], is_causal=False, is_gen=True),
        ]
    )
    mask = joint_mask(context, action_mask(context.valid, torch.tensor([steps]), is_causal=is_causal))[0]
    names = ["prompt"] + ["image"] * len(images) + [f"text{i}" for i in range(len(text))]
    names += ["state"] * 2 + ["belief"] * len(belief or [False])
    names += [f"action{i}" if is_causal else "action" for i in range(len(steps))]
    real = [True, *images, *text, True, True, *(belief or [False]), *steps]
    order = ["prompt", "image", "state", *[f"text{i}" for i in range(4)], "belief", "action"]
    order += [f"action{i}" for i in range(4)]
    for row, asks in enumerate(names):
        for column, answers in enumerate(names):
            allowed = real[column] and order.index(answers) <= order.index(asks)
            assert bool(mask[row, column]) == (allowed or row == column), (asks, answers)


@settings(max_examples=50)
@given(images=masks, text=masks)
def test_real_tokens_are_numbered_without_gaps(images, text):
    context = arrange(
        [
            part([True], is_causal=True),
            part(images, is_causal=False),
            part([True], is_causal=False, is_gen=True),
            part(text, is_causal=True),
        ]
    )
    numbers = sorted(context.positions[context.valid].tolist())
    assert numbers == list(range(2 + sum(images) + sum(text)))
    assert context.num_valid.item() == len(numbers)


@settings(max_examples=50)
@given(share=st.floats(-1, 1), num_bins=st.integers(2, 512), limit=st.floats(0.5, 10))
def test_bins_lose_at_most_half_a_bin(share, num_bins, limit):
    config = AutoregressiveConfig(num_bins=num_bins, bin_limit=limit)
    value = torch.tensor(share * limit)
    error = (from_bins(to_bins(value, config), config) - value).abs().item()
    assert error <= limit / num_bins * (1 + 1e-3) + 1e-5


@settings(max_examples=25)
@given(seed=st.integers(0, 1000))
def test_the_mean_over_steps_and_slots_by_plain_loops(seed):
    draws = torch.Generator().manual_seed(seed)
    errors = torch.rand(2, 3, 200, generator=draws)
    steps = torch.rand(2, 3, generator=draws) > 0.3
    slots = torch.rand(2, 200, generator=draws) > 0.9
    losses = per_sample_mean(errors, ~steps, slots)
    for row in range(2):
        values = [errors[row, i, j].item() for i in range(3) for j in range(200) if steps[row, i] and slots[row, j]]
        assert losses[row].item() == pytest.approx(sum(values) / len(values) if values else 0.0, rel=1e-4)
