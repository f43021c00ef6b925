"""The logits' bounds and the one posterior that training and screening share."""

from __future__ import annotations

import math

import pytest
import torch

from ptr_robot.method.ptr.candidates import Candidates
from ptr_robot.method.ptr.posterior import cosine_logits, identify, matched_log_posteriors, matched_logits

CLAMP = 20.0
COSINES = torch.tensor([-1.0, -0.7, -0.5, 0.0, 0.5, 0.7, 1.0])
TEMPERATURE = 0.03  # cosines beyond ±0.6 leave the bounds
EXPECTED = [-20.0, -20.0, -0.5 / 0.03, 0.0, 0.5 / 0.03, 20.0, 20.0]


def directions(cosines: torch.Tensor) -> torch.Tensor:  # (N,) -> (N, 2)
    """Unit vectors with these cosines to the first axis."""
    return torch.stack([cosines, (1 - cosines.square()).clamp_min(0).sqrt()], dim=1)


def test_cosine_logits_are_clamped_at_both_ends():
    logits = cosine_logits(torch.tensor([[[1.0, 0.0]]]), directions(COSINES), TEMPERATURE, CLAMP)
    assert logits.flatten().tolist() == pytest.approx(EXPECTED)


def test_matched_logits_are_clamped_at_both_ends():
    queries = torch.tensor([1.0, 0.0]).expand(1, len(COSINES), 2)
    logits = matched_logits(queries, directions(COSINES), TEMPERATURE, CLAMP)
    assert logits.flatten().tolist() == pytest.approx(EXPECTED)


def test_the_posterior_of_a_candidate_set_is_that_of_the_matched_logit_among_it():
    """As PTR reads it from shared columns, and as screening does from a list that begins with the matched one."""
    logits = torch.randn(1, 3, 5, generator=torch.Generator().manual_seed(0))
    is_negative = torch.tensor([[0, 1, 1, 0, 1], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=torch.bool)
    columns = torch.tensor([0, 1, 2])
    found = identify(logits, Candidates(torch.zeros(5, 2), columns, is_negative)).log_posteriors[0]
    for row, column in enumerate(columns.tolist()):
        others = logits[0, row][is_negative[row]]
        own = logits[0, row, column]
        listed = matched_log_posteriors(own, torch.cat([own.view(1), others]))
        expected = math.exp(own) / (math.exp(own) + sum(math.exp(other) for other in others.tolist()))
        assert found[row].item() == pytest.approx(math.log(expected), abs=1e-6)
        assert listed.item() == pytest.approx(math.log(expected), abs=1e-6)
