from __future__ import annotations

import pytest
import torch

from ptr_robot.method.ptr.config import ControllerConfig
from ptr_robot.method.ptr.controller import ScaleController

YES, NO = torch.tensor(True), torch.tensor(False)


def controller(**extra) -> ScaleController:
    return ScaleController(ControllerConfig(**extra), temperature=0.12, beta=1.5)


def observed(accuracy: float, margin: float = 0.0, **extra) -> ScaleController:
    made = controller(**extra)
    made.observe(torch.tensor([accuracy, margin, 1.0, 1.0]), YES)
    made.adjust()
    return made


def test_averages_are_exponential_and_start_at_the_first_value():
    made = controller()
    values, average = [0.5, 0.1, 0.9, 0.2], None
    for value in values:
        made.observe(torch.full((4,), value), YES)
        average = value if average is None else 0.98 * average + 0.02 * value
    torch.testing.assert_close(made.averages, torch.full((4,), average))


def test_a_step_without_valid_targets_moves_the_valid_ratio_alone():
    made = controller()
    made.observe(torch.tensor([0.5, 1.0, 2.0, 1.0]), YES)
    made.observe(torch.tensor([0.0, 0.0, 0.0, 0.0]), NO)
    torch.testing.assert_close(made.averages, torch.tensor([0.5, 1.0, 2.0, 0.98]))


def test_a_weak_scorer_is_kept_conservative():
    made = observed(0.04, margin=5.0)
    assert made.temperature == pytest.approx(0.12 * 1.01)
    assert made.beta == pytest.approx(1.5 * 1.01)


def test_a_strong_and_separated_scorer_is_sharpened():
    made = observed(0.36, margin=0.11)
    assert made.temperature == pytest.approx(0.12 * 0.995)
    assert made.beta == pytest.approx(1.5 * 0.995)


@pytest.mark.parametrize(("accuracy", "margin"), [(0.2, 5.0), (0.36, 0.09), (0.05, 0.0), (0.35, 1.0)])
def test_in_between_nothing_moves(accuracy, margin):
    made = observed(accuracy, margin)
    assert (made.temperature, made.beta) == (0.12, 1.5)


@pytest.mark.parametrize(
    ("accuracy", "ratio"), [(0.0, 0.0), (0.10, 0.0), (0.20, 0.125), (0.30, 0.25), (0.50, 0.5), (0.9, 0.5)]
)
def test_hard_ratio_is_interpolated(accuracy, ratio):
    assert observed(accuracy).hard_ratio == pytest.approx(ratio, abs=1e-6)


def test_bounds_hold_however_long_it_runs():
    weak, strong = observed(0.0), observed(1.0, margin=1.0)
    for _ in range(1000):
        weak.adjust()
        strong.adjust()
    assert (weak.temperature, weak.beta) == (0.20, 3.0)
    assert (strong.temperature, strong.beta) == (0.03, 0.5)


def test_switched_off_or_blind_it_does_nothing():
    off = observed(0.0, enabled=False)
    assert (off.temperature, off.beta, off.hard_ratio) == (0.12, 1.5, 0.0)
    blind = controller()
    blind.adjust()
    assert (blind.temperature, blind.beta, blind.hard_ratio) == (0.12, 1.5, 0.0)
