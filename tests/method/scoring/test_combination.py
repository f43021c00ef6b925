"""One rule for all channels: likelihood ratios by hand, silence of channels without outliers, control of mistakes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ptr_robot.method.scoring.combination import Mixture, combine, evidence_under, fit_mixture
from ptr_robot.method.scoring.null_distribution import degrees_of_freedom, tail_probability


def test_the_ratio_is_that_of_beta_against_uniform() -> None:
    mixture = Mixture(share=0.3, shape=0.2)
    for probability in (1e-6, 0.01, 0.5, 1.0):
        expected = math.log(0.7 + 0.3 * 0.2 * probability ** (0.2 - 1.0))
        assert mixture.log_ratios(np.array([probability]))[0] == pytest.approx(expected)


def test_uniform_probabilities_have_no_faulty_share() -> None:
    assert fit_mixture(np.random.default_rng(0).uniform(size=200)).share == 0.02


def test_a_faulty_third_is_found() -> None:
    generator = np.random.default_rng(0)
    probabilities = np.concatenate([generator.uniform(size=200), generator.uniform(size=100) ** 8])
    assert 0.2 <= fit_mixture(probabilities).share <= 0.5


def test_evidence_adds_up_and_nan_says_nothing() -> None:
    mixtures = [Mixture(0.1, 0.2), Mixture(0.2, 0.3)]
    scores = np.array([[3.0, np.nan], [3.0, 1.0]])
    degrees = degrees_of_freedom(2)
    first = mixtures[0].log_ratios(tail_probability(np.array([3.0]), degrees))[0]
    second = mixtures[1].log_ratios(tail_probability(np.array([1.0]), degrees))[0]
    np.testing.assert_allclose(evidence_under(mixtures, scores), [first, first + second])


@pytest.mark.parametrize("allowed", [0.02, 0.05, 0.1])
def test_good_episodes_are_lost_no_more_often_than_allowed(allowed: float) -> None:
    """Twenty datasets of good episodes with dependent channels: the share that is dropped stays below the bound."""
    lost = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        shared = generator.standard_normal((80, 1))
        scores = 0.7 * shared + 0.7 * generator.standard_normal((80, 6))
        combination = combine(scores, allowed)
        lost.append(float((combination.evidence(scores) >= combination.threshold).mean()))
    assert np.mean(lost) <= allowed


def test_chance_evidence_is_rarer_the_stronger_it_is() -> None:
    scores = np.random.default_rng(0).standard_normal((60, 5))
    combination = combine(scores, 0.05)
    tails = combination.false_exclusion(np.linspace(-1.0, 30.0, 50))
    assert (np.diff(tails) <= 1e-12).all()
    assert tails[0] > 0.9
    assert tails[-1] < 1e-3


def test_what_is_unusual_to_one_channel_is_no_chance_for_another() -> None:
    """A fault that one channel finds far too smooth, and another plain: the faulty do not raise the threshold."""
    generator = np.random.default_rng(1)
    scores = generator.standard_normal((60, 4))
    scores[:12, 0] = 15.0
    scores[:12, 1] = -20.0
    combination = combine(scores, 0.05)
    alone = combine(np.delete(scores, 1, axis=1), 0.05)
    assert combination.threshold < alone.threshold + 2.0
    assert (combination.evidence(scores)[:12] >= combination.threshold).all()
    assert len(combination.mirrored) <= 48
