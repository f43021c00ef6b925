"""What PTR did to a batch, as plain numbers beside the bounds it promises."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ptr_robot.method.distributed import current_layout, gather_rows
from ptr_robot.method.ptr.algorithm import PTR
from ptr_robot.method.ptr.weights import kl_bound
from ptr_robot.method.types import PTROutput, Samples

_WEIGHT_BINS = 16  # from 1/4 to 4, four to a doubling


@dataclass(frozen=True)
class Histogram:
    """``counts[i]`` values lie in ``[edges[i], edges[i + 1])``; the last bin includes its upper edge."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @staticmethod
    def of(values: Tensor, low: float, high: float, num_bins: int = 20) -> Histogram:  # (N,)
        """Count finite values between two finite ends; a range of no width is widened a little."""
        if high <= low:
            low, high = low - 0.5, high + 0.5
        counts, edges = torch.histogram(values.double().cpu().clamp(low, high), num_bins, range=(low, high))
        return Histogram(tuple(edges.tolist()), tuple(int(count) for count in counts))


@dataclass(frozen=True)
class SourceShare:
    """How much of the data a source is, and how much of the training it became."""

    data_share: float  # π(m)
    training_share: float  # q(m)
    ratio: float  # q(m) / π(m), within [low, high] by Eq. source_bound
    ratio_low: float
    ratio_high: float


@dataclass(frozen=True)
class Diagnostics:
    """One batch over all ranks; padding chunks are left out."""

    num_samples: int
    valid_ratio: float  # share of samples that have a target and were scored
    effective_sample_size: float  # (Σw)² / Σw²
    kl: float  # empirical KL(q‖p)
    kl_bound: float  # log(w̄ / w̲)
    ratio_min: float  # smallest q(x)/p(x)
    ratio_max: float  # largest q(x)/p(x)
    ratio_low: float  # w̲ / E[w], which ratio_min cannot undercut
    ratio_high: float  # w̄ / E[w], which ratio_max cannot exceed
    weight_mean: float
    weight_std: float
    score_mean: float  # over scored samples
    score_std: float
    accuracy: float  # share of scored samples whose matched target has the highest logit
    margin: float  # mean matched logit minus best mismatched one
    candidates: float  # mean |Y_t|
    temperature: float
    beta: float
    hard_ratio: float
    score_histogram: Histogram
    weight_histogram: Histogram
    weight_shares: dict[float, float]  # of the samples, by the lower edge of bins that are equal on a log scale
    sources: dict[int, SourceShare]

    def scalars(self) -> dict[str, float]:
        """The single numbers under the names that loggers show; sources as ``source_3/ratio``."""
        named = {name: float(value) for name, value in vars(self).items() if isinstance(value, int | float)}
        named |= {f"weight_share/{edge:.2f}": share for edge, share in self.weight_shares.items()}
        for source, share in self.sources.items():
            named |= {f"source_{source}/{name}": value for name, value in vars(share).items()}
        return named


@torch.no_grad()
def diagnose(ptr: PTR, output: PTROutput, samples: Samples) -> Diagnostics:
    """Look at one step's output; under several ranks all of them must call it, and all get the same answer."""
    batch = _gather(output, samples)
    weights, scored = batch["weights"].double(), batch["is_scored"]
    bounds = _bounds(ptr, batch["prior_weights"])
    shares = weights / weights.sum()  # q of each sample; p is 1/n
    mean = float(weights.mean()) or math.nan  # where nothing counts, no ratio means anything
    least, most = (float(bound) for bound in weights.aminmax()) if len(weights) else (math.nan, bounds[1])
    scores, margins = batch["scores"][scored], batch["margins"][scored]
    return Diagnostics(
        num_samples=len(weights),
        valid_ratio=float(scored.float().mean()),
        effective_sample_size=float(weights.sum().square() / weights.square().sum()),
        kl=float(torch.special.xlogy(shares, shares * len(weights)).sum()),
        kl_bound=kl_bound(bounds),
        ratio_min=least / mean,
        ratio_max=most / mean,
        ratio_low=bounds[0] / mean,
        ratio_high=bounds[1] / mean,
        weight_mean=_mean(weights),
        weight_std=_deviation(weights),
        score_mean=_mean(scores),
        score_std=_deviation(scores),
        accuracy=_mean((margins > 0).float()),
        margin=_mean(margins),
        candidates=_mean(batch["candidate_counts"][scored].float()),
        temperature=ptr.controller.temperature,
        beta=ptr.controller.beta,
        hard_ratio=ptr.controller.hard_ratio,
        score_histogram=_span_histogram(scores),
        weight_histogram=Histogram.of(weights, bounds[0], min(bounds[1], most)),
        weight_shares=_weight_shares(weights) if ptr.scorer is not None else {},
        sources=_source_shares(weights, batch["source_ids"], bounds),
    )


def _bounds(ptr: PTR, prior_weights: Tensor) -> tuple[float, float]:
    """What a weight of this batch can be: the map's bounds, one for unscored samples, times the user's own factors."""
    low, high = ptr.weight_bounds
    if not len(prior_weights):
        return min(low, 1.0), max(high, 1.0)
    return min(low, 1.0) * float(prior_weights.min()), max(high, 1.0) * float(prior_weights.max())


def _gather(output: PTROutput, samples: Samples) -> dict[str, Any]:
    layout = current_layout(output.weights.shape[0], output.weights.device)
    sources = samples.source_ids if samples.source_ids is not None else torch.zeros_like(samples.sample_ids)
    prior = samples.prior_weights if samples.prior_weights is not None else torch.ones_like(output.weights)
    chunk_is_pad = samples.chunk_is_pad if samples.chunk_is_pad is not None else torch.zeros_like(samples.has_target)
    columns = {
        "weights": output.weights,
        "scores": output.scores,
        "margins": output.margins,
        "candidate_counts": output.candidate_counts,
        "is_scored": output.is_scored,
        "source_ids": sources,
        "prior_weights": prior,
    }
    kept = ~gather_rows(chunk_is_pad, layout)
    return {name: gather_rows(column, layout)[kept] for name, column in columns.items()}


def _weight_shares(weights: Tensor) -> dict[float, float]:  # (n,)
    """The share of samples in each bin from a quarter to four; what lies beyond is in the first and the last."""
    edges = 2.0 ** (torch.arange(_WEIGHT_BINS, dtype=torch.float64) / 4 - 2)
    bins = torch.bucketize(weights.cpu().contiguous(), edges[1:], right=True)
    counts = torch.bincount(bins, minlength=_WEIGHT_BINS) / max(len(weights), 1)
    return dict(zip(edges.tolist(), counts.tolist(), strict=True))


def _source_shares(weights: Tensor, source_ids: Tensor, bounds: tuple[float, float]) -> dict[int, SourceShare]:
    low, high = bounds
    shares = {}
    for source in sorted(set(source_ids.tolist())):
        mine = weights[source_ids == source]
        data_share, training_share = len(mine) / len(weights), float(mine.sum() / weights.sum())
        shares[int(source)] = SourceShare(
            data_share=data_share,
            training_share=training_share,
            ratio=training_share / data_share,
            ratio_low=low / high if high > 0 else math.nan,
            ratio_high=high / low if low > 0 else math.inf,
        )
    return shares


def _mean(values: Tensor) -> float:
    return float(values.mean()) if len(values) else math.nan


def _deviation(values: Tensor) -> float:
    return float(values.std(correction=0)) if len(values) else math.nan


def _span_histogram(values: Tensor) -> Histogram:
    if not len(values):
        return Histogram.of(values, 0.0, 1.0)
    return Histogram.of(values, float(values.min()), float(values.max()))
