"""The paper's three propositions on densities that are known in closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from ptr_robot.method import ExponentialWeightMap, diagnose
from ptr_robot.method.ptr.candidates import Candidates
from ptr_robot.method.ptr.posterior import identify, ptr_scores
from tests.method.conftest import make_batch, make_ptr

UNCLIPPED = ExponentialWeightMap(w_min=0.0, w_max=math.inf)


def bayes_scores(log_ratio_positive, log_ratio_negatives):
    """PTR scores with the true log density ratio as logits: (N,), (N, K) -> (N,)."""
    count, negatives = log_ratio_negatives.shape
    logits = torch.cat([log_ratio_positive.unsqueeze(1), log_ratio_negatives], dim=1).unsqueeze(0)
    is_negative = torch.ones(count, negatives + 1, dtype=torch.bool)
    is_negative[:, 0] = False
    candidates = Candidates(torch.zeros(negatives + 1, 1), torch.zeros(count, dtype=torch.int64), is_negative)
    found = identify(logits, candidates)
    return ptr_scores(found.log_posteriors[0], candidates.counts)


def diagnose_weights(weights, source_ids):
    """The diagnostics of a step that gave these weights to samples of these sources: (N,), (N,)."""
    ptr, count = make_ptr(weight_map=UNCLIPPED), len(weights)
    output, samples = ptr(*make_batch(1)), make_batch(1)[1]
    zeros, no = torch.zeros(count), torch.zeros(count, dtype=torch.bool)
    output = replace(output, weights=weights, scores=zeros, margins=zeros, candidate_counts=zeros.long(), is_scored=no)
    samples = replace(samples, source_ids=source_ids, sample_ids=torch.arange(count), has_target=no)
    return diagnose(ptr, output, samples)


def test_density_ratio_logits_are_bayes_optimal():
    """Proposition 1: no other logits identify better, and a constant b(h, e) changes nothing."""
    generator = torch.Generator().manual_seed(0)
    mean, trials, negatives = 1.3, 20_000, 7
    positive = torch.randn(trials, generator=generator) + mean
    others = torch.randn(trials, negatives, generator=generator)

    def log_ratio(y):
        return mean * y - mean**2 / 2  # N(mean, 1) against N(0, 1)

    best = bayes_scores(log_ratio(positive), log_ratio(others)).mean()
    for factor in (0.5, 0.8, 1.25, 2.0):
        assert bayes_scores(factor * log_ratio(positive), factor * log_ratio(others)).mean() < best
    bent = bayes_scores(log_ratio(positive) + 0.3 * positive**2, log_ratio(others) + 0.3 * others**2)
    assert bent.mean() < best
    shifted = bayes_scores(log_ratio(positive) + 5.0, log_ratio(others) + 5.0)
    torch.testing.assert_close(shifted.mean(), best, rtol=1e-4, atol=1e-5)


def test_bayes_posterior_equals_the_posterior_by_bayes_rule():
    """Proposition 1, Eq. app_ratio_step1: p₊(Y_j) Π p₋(Y_l), normalised over j."""
    generator = torch.Generator().manual_seed(1)
    y = torch.randn(1, 5, generator=generator).double()
    log_plus = -((y - 0.7) ** 2) / 2 / 0.5**2 - math.log(0.5)
    log_minus = -(y**2) / 2
    joint = [math.exp(sum(float(log_plus[0, k] if k == j else log_minus[0, k]) for k in range(5))) for j in range(5)]
    ratio = log_plus - log_minus
    score = bayes_scores(ratio[:, 0], ratio[:, 1:])
    assert score.item() == pytest.approx(math.log(joint[0] / sum(joint) * 5), rel=1e-9)


@pytest.mark.parametrize(("mean", "scale"), [(0.5, 1.0), (1.0, 0.8), (0.0, 0.5)])
def test_mean_score_tends_to_the_kl_divergence(mean, scale):
    """Proposition 2: closed form for Gaussians N(mean, scale²) against N(0, 1)."""
    generator = torch.Generator().manual_seed(2)
    kl = math.log(1 / scale) + (scale**2 + mean**2) / 2 - 0.5

    def log_ratio(y):
        return -((y - mean) ** 2) / (2 * scale**2) - math.log(scale) + y**2 / 2

    gaps = []
    for negatives in (4, 64, 4096):
        trials = 2_000_000 // negatives if negatives < 4096 else 1500
        positive = torch.randn(trials, generator=generator) * scale + mean
        others = torch.randn(trials, negatives, generator=generator)
        gaps.append(abs(bayes_scores(log_ratio(positive), log_ratio(others)).mean().item() - kl))
    assert gaps[0] > gaps[1]  # the gap closes as the pool grows
    assert gaps[-1] < 0.05 + 0.02 * kl


def test_entropy_view_on_a_finite_universe():
    """With a uniform baseline over Ω, the mean score tends to log|Ω| − H(U | h, e)."""
    generator = torch.Generator().manual_seed(3)
    probabilities = torch.tensor([0.55, 0.2, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01])
    size = len(probabilities)
    entropy = -(probabilities * probabilities.log()).sum().item()
    log_ratio = (probabilities * size).log()
    trials, negatives = 3000, 2048
    positive = torch.multinomial(probabilities, trials, replacement=True, generator=generator)
    others = torch.randint(size, (trials, negatives), generator=generator)
    mean = bayes_scores(log_ratio[positive], log_ratio[others]).mean().item()
    assert mean == pytest.approx(math.log(size) - entropy, abs=0.05)


def test_source_shares_under_tilting():
    """Proposition 3 with Gaussian scores: E[exp(J/β)] = exp(m/β + s²/2β²) in closed form."""
    generator = torch.Generator().manual_seed(4)
    beta, priors, means, spreads = 0.8, [0.5, 0.3, 0.2], [0.0, 1.0, -0.5], [0.3, 0.5, 0.8]
    moments = [math.exp(m / beta + s**2 / (2 * beta**2)) for m, s in zip(means, spreads, strict=True)]
    expected = [p * moment for p, moment in zip(priors, moments, strict=True)]
    expected = [value / sum(expected) for value in expected]
    counts = [round(600_000 * prior) for prior in priors]
    scores = [torch.randn(n, generator=generator) * s + m for n, m, s in zip(counts, means, spreads, strict=True)]
    source_ids = torch.arange(3).repeat_interleave(torch.tensor(counts))
    sources = diagnose_weights(UNCLIPPED(torch.cat(scores), beta), source_ids).sources
    for source, (prior, share) in enumerate(zip(priors, expected, strict=True)):
        assert sources[source].data_share == pytest.approx(prior)
        assert sources[source].training_share == pytest.approx(share, rel=0.01)
        assert sources[source].ratio == pytest.approx(share / prior, rel=0.01)


def test_exponential_weights_solve_the_tilting_problem():
    """Eq. app_tilt: no other distribution has a larger E_q[J] − β KL(q‖p)."""
    generator = torch.Generator().manual_seed(5)
    scores, beta = torch.randn(20, generator=generator).double(), 0.8
    base = torch.full((20,), 1 / 20, dtype=torch.float64)

    def objective(q):
        return (q * scores).sum() - beta * (q * (q / base).log()).sum()

    weights = UNCLIPPED(scores, beta)
    best = weights / weights.sum()
    at_best = beta * math.log(sum(math.exp(score / beta) for score in scores.tolist()) / 20)
    kl = diagnose_weights(weights, torch.zeros(20, dtype=torch.int64)).kl
    assert objective(best).item() == pytest.approx(at_best, rel=1e-9)
    assert (best * scores).sum().item() - beta * kl == pytest.approx(at_best, rel=1e-9)
    for _ in range(200):
        other = (best.log() + 0.3 * torch.randn(20, generator=generator)).softmax(dim=0)
        assert objective(other) <= objective(best) + 1e-12
