"""Calibration: how much each kind of evidence for an instruction counts, and how much the given instruction does.

Evidence of an episode comes from heads that were not trained on it, so the instruction that was given for it tests
them, even where some of the given ones are wrong: evidence that predicts them is scaled up, evidence that is noise is
scaled down. And where the evidence predicts most of them, a given instruction is itself evidence.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_DEVIATION = 0.5  # of the scales' logarithms around zero, before anything is seen: few episodes move them little
_USUAL_NOISE, _NOISE_DEVIATION = -1.0, 2.0  # of the logit of the share of instructions given at random
_MAX_STEPS = 100
_MIN_NOISE = 1e-3
_MIN_ASSUMED_WRONG = 0.4  # share of wrong instructions assumed, at least


def trusted_scales(evidence: Tensor, given: Tensor) -> Tensor:  # (J, E, K), (E,) int64 of K -> (J,)
    """The most probable factors of the evidence if P(given) is the softmax of its scaled sum, or else any of K.

    A factor is log-normal around one before anything is seen; the share of instructions given at random is found
    along with the factors.
    """
    evidence = evidence.double()
    unknown = torch.zeros(len(evidence) + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([unknown], max_iter=_MAX_STEPS, line_search_fn="strong_wolfe")

    def negative_log_joint() -> Tensor:
        optimizer.zero_grad()
        value = -log_joint(evidence, given, unknown[:-1], unknown[-1] + _USUAL_NOISE)
        torch.autograd.backward([value])
        return value

    with torch.enable_grad():
        optimizer.step(negative_log_joint)  # type: ignore[no-untyped-call]
    return unknown.detach()[:-1].exp().float()


def log_joint(evidence: Tensor, given: Tensor, log_scales: Tensor, noise_logit: Tensor) -> Tensor:
    """Of given instructions and unknowns, up to a constant: (J, E, K), (E,), (J,), () -> ()."""
    noise = torch.sigmoid(noise_logit)
    meant = torch.einsum("j,jek->ek", log_scales.exp(), evidence).softmax(dim=1)
    named = meant.gather(1, given.unsqueeze(1)).squeeze(1)
    likelihood = torch.log((1 - noise) * named + noise / evidence.shape[2]).sum()
    prior = -0.5 * (log_scales / _DEVIATION).square().sum()
    return likelihood + prior - 0.5 * ((noise_logit - _USUAL_NOISE) / _NOISE_DEVIATION).square()


def weight_of_given(meant: Tensor, given: Tensor) -> float:  # (E, K) posteriors of the evidence, (E,) int64 of K
    """log P(given | meant) − log P(given | another is meant), in nats, by expectation maximisation.

    An instruction is the one that is meant, or with a share that is estimated here any of K. At least two in five are
    assumed wrong whatever is estimated: evidence that is weak at first explains wrong instructions too easily.
    """
    num = meant.shape[1]
    named = meant.double().gather(1, given.unsqueeze(1)).squeeze(1)
    noise = 0.5
    for _ in range(_MAX_STEPS):
        noise = float((noise / num / ((1 - noise) * named + noise / num)).mean().clamp(_MIN_NOISE, 1 - _MIN_NOISE))
    noise = max(noise, _MIN_ASSUMED_WRONG * num / (num - 1))
    return math.log1p((1 - noise) * num / noise)
