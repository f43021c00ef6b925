"""Curves over seeds of which some lack numbers: each mean is of those that have one."""

from __future__ import annotations

import numpy as np

from ptr_robot.study.report.curves import mean_curve, paired_curves
from tests.study.made_records import made_cell


def cells(*recorded: dict) -> list:
    return [made_cell("mixed", "paper", seed, {"reach-v3": 0.5}, curves=curves) for seed, curves in enumerate(recorded)]


def test_a_mean_is_over_the_seeds_that_have_the_number() -> None:
    lacking = {"step": [10, 20, 30], "margin": [None, 2.0, None]}
    steps, values = mean_curve(cells({"step": [10, 20, 30], "margin": [1.0, 4.0, None]}, lacking), "margin")
    assert steps.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(values, [1.0, 3.0, np.nan])


def test_steps_are_those_of_the_seeds_that_have_the_number() -> None:
    without, shorter = {"action_loss": [1.0]}, {"step": [20], "margin": [1.0]}
    steps, values = mean_curve(cells(without, shorter, {"step": [10, 20], "margin": [1.0, 3.0]}), "margin")
    assert (steps.tolist(), values.tolist()) == ([10, 20], [1.0, 2.0])
    assert mean_curve(cells(without), "action_loss") is None
    assert mean_curve(cells({"step": [10], "margin": [None]}), "margin") is None


def test_a_batch_of_one_chunk_has_no_entropy() -> None:
    recorded = {"step": [1, 2], "num_samples": [1, 4], "kl": [0.0, 0.0]}
    _, values = mean_curve(cells(recorded), "weight_entropy")
    np.testing.assert_array_equal(values, [np.nan, 1.0])
    assert mean_curve(cells({"step": [1], "kl": [0.0]}), "weight_entropy") is None


def test_paired_means_are_of_seeds_that_have_both_numbers() -> None:
    first = cells({"step": [1, 2], "a": [1.0, 2.0]}, {"step": [1, 2], "a": [3.0, 4.0]}, {"step": [1, 2]})
    second = cells({"step": [1, 2], "b": [5.0, None]}, {"step": [1, 2], "b": [7.0, 8.0]}, {"step": [1], "b": [9.0]})
    steps, one, other = paired_curves(list(zip(first, second, strict=True)), ("a", "b"))
    assert (steps.tolist(), one.tolist(), other.tolist()) == ([1, 2], [2.0, 4.0], [6.0, 8.0])
    assert paired_curves([(first[2], second[2])], ("a", "b")) is None
    assert paired_curves([], ("a", "b")) is None
