"""The rows that studies choose from: plain training, PTR, its controls, and what a user would try instead."""

from __future__ import annotations

import math

from ptr_robot.method.ptr.config import PRESETS as PTR_PRESETS
from ptr_robot.scorers import get_scorer, scorer_names
from ptr_robot.study.spec.method_row import TRUTH, EpisodeFilter, EpisodeWeighting, MethodRow

AS_PUBLISHED = "PTR, as published"  # the method "paper": the settings that the paper states
_CLEAN = EpisodeFilter(TRUTH)
_TITLES = {name: get_scorer(name).title for name in scorer_names()}

_CONTROLS = (
    MethodRow("sft", "SFT"),
    MethodRow("sft-belief", "SFT + belief", "sft-belief"),
    MethodRow("aux-only", "PTR's losses alone (α=0)", "paper", {"weights": {"alpha": 0.0}}),
    MethodRow("placebo", "PTR, weights permuted", "paper", {"weights": {"permute": True}}),
    MethodRow("clean", "SFT, clean part", filter=_CLEAN),
    MethodRow("clean-ptr", f"{AS_PUBLISHED}, clean part", "paper", filter=_CLEAN),
    MethodRow("true-labels", "true labels, weights .25/4", weighting=EpisodeWeighting(TRUTH)),
    MethodRow(
        "true-labels-sampler",
        "true labels, weights .25/4, sampler",
        weighting=EpisodeWeighting(TRUTH),
        apply="sampler",
    ),
    MethodRow("sft-double-batch", "SFT, twice the batch", batch_factor=2),
    MethodRow("true-labels-zero", "true labels, weights 0/1", weighting=EpisodeWeighting(TRUTH, w_min=0.0, w_max=1.0)),
)
_PRESETS = tuple(
    MethodRow(name, AS_PUBLISHED if name == "paper" else f"PTR ({name})", name)
    for name in PTR_PRESETS
    if name not in {row.name for row in _CONTROLS}
)
_SCREENED = (
    MethodRow("screened", "SFT, screened", "screened"),
    MethodRow("screened-sampler", "SFT, screened, sampler", "screened", apply="sampler"),
    MethodRow("paper-sampler", f"{AS_PUBLISHED}, sampler", "paper", apply="sampler"),
)
# The rows of the paper's ablation table; its last, α = 0, is sft-belief.
_ABLATIONS = (
    MethodRow("no-belief", "w/o belief tokens", "paper", {"belief": {"enabled": False}}),
    # One process has no other ranks: what gathering brings, more negatives, is taken away by half of the queue's.
    MethodRow(
        "fewer-negatives",
        "w/o cross-rank gather (half the negatives)",
        "paper",
        {"pool": {"cross_rank": False, "max_queue_negatives": 32}},
    ),
    MethodRow("no-ema", "w/o EMA (frozen encoder)", "paper", {"targets": {"ema_decay": 1.0}}),
    MethodRow("no-controller", "w/o refiner", "paper", {"controller": {"enabled": False}}),
    MethodRow("no-clipping", "w/o clipping", "paper", {"weights": {"w_min": 0.0, "w_max": math.inf}}),
)
_FILTERS = tuple(
    MethodRow(f"filter-{rule}", f"better half by {title}", filter=EpisodeFilter(rule))
    for rule, title in _TITLES.items()
)
_WEIGHTINGS = tuple(
    MethodRow(f"weight-{rule}", f"weights by {title}", weighting=EpisodeWeighting(rule))
    for rule, title in _TITLES.items()
)

_ROWS = (*_CONTROLS, *_SCREENED, *_PRESETS, *_ABLATIONS, *_FILTERS, *_WEIGHTINGS)

REGISTRY: dict[str, MethodRow] = {row.name: row for row in _ROWS}
