"""Every switch of PTR, with the paper's defaults; the paper's place of each is in docs/paper_map.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ptr_robot.errors import ConfigError, did_you_mean

APPLY = ("loss", "sampler")
CHANNELS = ("transition", "outcome", "action", "instruction")


@dataclass(frozen=True)
class BeliefConfig:
    """The BeliefTokenizer (Section 4.1)."""

    enabled: bool = True  # belief tokens at all
    num_tokens: int = 4  # M
    temperature: float = 1.0  # τ_tok
    entropy_weight: float = 1e-3  # λ_ent
    diversity_weight: float = 1e-3  # λ_div
    # The tokenizer's reconstructions join the scorer's action summary; they have seen the context, the paper's has not.
    informs_scorer: bool = False

    def __post_init__(self) -> None:
        _require(self.num_tokens >= 1, "belief.num_tokens", self.num_tokens, "at least 1")
        _require(_is_positive(self.temperature), "belief.temperature", self.temperature, "positive")
        _require(_is_amount(self.entropy_weight), "belief.entropy_weight", self.entropy_weight, "zero or more")
        _require(
            _is_amount(self.diversity_weight),
            "belief.diversity_weight",
            self.diversity_weight,
            "zero or more",
        )


@dataclass(frozen=True)
class TargetConfig:
    """The post-action consequence and its EMA encoder (Section 4.2)."""

    kind: str = "future"  # "future": g(o'), the paper's; "change": g(o') − g(o)
    ema_decay: float = 0.999  # μ; 1 freezes the encoder, 0 copies the tower at every step
    normalize_eps: float = 1e-6  # keeps a target of no length from a division by zero

    def __post_init__(self) -> None:
        _require_choice("targets.kind", self.kind, ("future", "change"))
        _require(0 <= self.ema_decay <= 1, "targets.ema_decay", self.ema_decay, "in [0, 1]")
        _require(_is_positive(self.normalize_eps), "targets.normalize_eps", self.normalize_eps, "positive")


@dataclass(frozen=True)
class PoolConfig:
    """Where mismatched targets come from (Section 4.2, candidate pool)."""

    queue_size: int = 1024  # targets of earlier steps that are remembered
    max_queue_negatives: int = 64  # per sample
    cross_rank: bool = True  # other ranks' targets of this step are candidates
    seed: int = 0  # of the draws from the queue and of the ranking loss' permutation

    def __post_init__(self) -> None:
        _require(self.queue_size >= 0, "pool.queue_size", self.queue_size, "zero or more")
        _require(
            self.max_queue_negatives >= 0,
            "pool.max_queue_negatives",
            self.max_queue_negatives,
            "zero or more",
        )


@dataclass(frozen=True)
class ScorerConfig:
    """The transition scorer and its losses (Section 4.2)."""

    enabled: bool = True  # scores at all; without them every weight is 1
    hidden_dim: int = 512  # width of the heads
    temperature: float = 0.12  # τ_score at the start
    logit_clamp: float = 20.0  # logits are kept within plus and minus this
    identification_weight: float = 0.05  # λ_id
    ranking_weight: float = 0.25  # λ_rank
    # What is identified; the paper's is the transition alone. The score is the sum over channels.
    channels: tuple[str, ...] = ("transition",)
    num_folds: int = 1  # 1: the paper; more: cross-fitted heads
    # True: no loss of the scorer reaches the policy or the tokenizer; None: so with folds, which would leak otherwise.
    detach_features: bool | None = None
    offset_discount: float = 1.0  # γ on the identification loss

    @property
    def needs_recorded_actions(self) -> bool:
        """Whether a channel looks at, or identifies, the recorded chunk itself."""
        return "action" in self.channels or "instruction" in self.channels

    @property
    def is_detached(self) -> bool:
        """Whether the scorer's losses train its heads alone."""
        return self.num_folds > 1 if self.detach_features is None else self.detach_features

    def __post_init__(self) -> None:
        _require(self.hidden_dim >= 1, "scorer.hidden_dim", self.hidden_dim, "at least 1")
        _require(_is_positive(self.temperature), "scorer.temperature", self.temperature, "positive")
        _require(_is_positive(self.logit_clamp), "scorer.logit_clamp", self.logit_clamp, "positive")
        for name in ("identification_weight", "ranking_weight"):
            _require(_is_amount(getattr(self, name)), f"scorer.{name}", getattr(self, name), "zero or more")
        _require(bool(self.channels), "scorer.channels", self.channels, f"at least one of {', '.join(CHANNELS)}")
        for channel in self.channels:
            _require_choice("a channel of scorer.channels", channel, CHANNELS)
        _require(len(set(self.channels)) == len(self.channels), "scorer.channels", self.channels, "without repetition")
        _require(self.num_folds >= 1, "scorer.num_folds", self.num_folds, "at least 1")
        _require(0 < self.offset_discount <= 1, "scorer.offset_discount", self.offset_discount, "in (0, 1]")


@dataclass(frozen=True)
class WeightConfig:
    """From score to weight (Section 4.4)."""

    # exponential: the paper's, a chunk by its own score; populations: an episode by all of its chunks' scores.
    map: str = "exponential"
    alpha: float = 1.0  # α: 0 is uniform post-training
    beta: float = 1.5  # β at the start
    w_min: float = 0.25  # the smallest weight
    w_max: float = 4.0  # inf with w_min = 0: no clipping
    warmup_steps: int = 3000  # weights are exactly 1 before; the scorer learns from the first step
    fallback: str = "one"  # weight of a sample without a target: "one", the paper's; "mean" of the scored ones
    offset_discount: float = 1.0  # γ on w − 1; 1: off
    # Of each task, what the map "populations" keeps at least: over episodes, q/p never exceeds its inverse.
    keep_share: float = 0.25
    permute: bool = False  # a placebo: the weights of a batch go to its samples at random
    # loss: weights scale the loss, the paper's way; sampler: they are reported, whoever draws the samples applies them,
    # and the loss is plain.
    apply: str = "loss"

    def __post_init__(self) -> None:
        _require_choice("weights.map", self.map, ("exponential", "populations"))
        _require_choice("weights.apply", self.apply, APPLY)
        _require(0 < self.keep_share <= 1, "weights.keep_share", self.keep_share, "in (0, 1]")
        _require(0 <= self.alpha <= 1, "weights.alpha", self.alpha, "in [0, 1]")
        _require(_is_positive(self.beta), "weights.beta", self.beta, "positive")
        _require(0 <= self.w_min <= 1, "weights.w_min", self.w_min, "in [0, 1]")
        _require(self.w_max >= 1, "weights.w_max", self.w_max, "at least 1")
        _require(self.warmup_steps >= 0, "weights.warmup_steps", self.warmup_steps, "zero or more")
        _require_choice("weights.fallback", self.fallback, ("one", "mean"))
        _require(0 < self.offset_discount <= 1, "weights.offset_discount", self.offset_discount, "in (0, 1]")
        if self.map == "populations":
            for name in ("alpha", "w_min", "w_max", "fallback", "offset_discount"):
                if getattr(self, name) != getattr(WeightConfig, name):
                    raise ConfigError(
                        f"weights.{name} is {getattr(self, name)}; the map 'populations' does not read it: leave it "
                        "out, or set weights.map to exponential"
                    )


@dataclass(frozen=True)
class ControllerConfig:
    """Adaptive scale control (Section 4.5)."""

    enabled: bool = True  # temperature, β and hard negatives follow training
    interval_steps: int = 100  # the "logging step"
    momentum: float = 0.98  # of the running statistics
    weak_accuracy: float = 0.05  # below: the temperature rises, and β with it
    strong_accuracy: float = 0.35  # above, with a strong margin: both fall
    strong_margin: float = 0.10  # what a strong margin is
    raise_factor: float = 1.01  # of one rise
    lower_factor: float = 0.995  # of one fall
    temperature_min: float = 0.03  # the temperature's lower bound
    temperature_max: float = 0.20  # its upper bound
    beta_min: float = 0.5  # β's lower bound
    beta_max: float = 3.0  # its upper bound
    hard_accuracy_low: float = 0.10  # up to here no negative is a hard one
    hard_accuracy_high: float = 0.50  # from here on as many as may be
    hard_ratio_max: float = 0.5  # share of hard negatives at most

    def __post_init__(self) -> None:
        _require(self.interval_steps >= 1, "controller.interval_steps", self.interval_steps, "at least 1")
        _require(0 <= self.momentum < 1, "controller.momentum", self.momentum, "in [0, 1)")
        _require(self.raise_factor >= 1, "controller.raise_factor", self.raise_factor, "at least 1")
        _require(0 < self.lower_factor <= 1, "controller.lower_factor", self.lower_factor, "in (0, 1]")
        for name in ("temperature", "beta"):
            low, high = getattr(self, f"{name}_min"), getattr(self, f"{name}_max")
            _require(0 < low <= high, f"controller.{name}_min and _max", (low, high), "0 < min <= max")
        accuracies = (self.weak_accuracy, self.strong_accuracy)
        _require(accuracies[0] <= accuracies[1], "controller.weak_ and strong_accuracy", accuracies, "in that order")
        accuracies = (self.hard_accuracy_low, self.hard_accuracy_high)
        _require(
            0 <= accuracies[0] < accuracies[1] <= 1,
            "controller.hard_accuracy_low and _high",
            accuracies,
            "0 <= low < high <= 1",
        )
        _require(0 <= self.hard_ratio_max <= 1, "controller.hard_ratio_max", self.hard_ratio_max, "in [0, 1]")


@dataclass(frozen=True)
class PTRConfig:
    """All of PTR; the defaults are the paper's."""

    belief: BeliefConfig = field(default_factory=BeliefConfig)
    targets: TargetConfig = field(default_factory=TargetConfig)
    pool: PoolConfig = field(default_factory=PoolConfig)
    scorer: ScorerConfig = field(default_factory=ScorerConfig)
    weights: WeightConfig = field(default_factory=WeightConfig)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    check_inputs: bool = True  # look for NaN, infinities and empty chunks at each step
    seed: int = 0  # of the heads' initial values; the global generator is left alone

    def __post_init__(self) -> None:
        if not self.controller.enabled:
            return
        controller = self.controller
        start, low, high = self.scorer.temperature, controller.temperature_min, controller.temperature_max
        _require(low <= start <= high, "scorer.temperature", start, f"within the controller's [{low}, {high}]")
        start, low, high = self.weights.beta, controller.beta_min, controller.beta_max
        _require(low <= start <= high, "weights.beta", start, f"within the controller's [{low}, {high}]")

    @staticmethod
    def preset(name: str) -> PTRConfig:
        """A named configuration; ``PRESETS`` lists them."""
        if name not in PRESETS:
            raise ConfigError(f"there is no PTR preset {name!r}; {did_you_mean(name, PRESETS)}")
        return PRESETS[name]()


def _plain() -> PTRConfig:
    return PTRConfig(
        belief=BeliefConfig(enabled=False),
        scorer=ScorerConfig(enabled=False),
        weights=WeightConfig(alpha=0.0),
    )


def _belief_alone() -> PTRConfig:
    return PTRConfig(scorer=ScorerConfig(enabled=False), weights=WeightConfig(alpha=0.0))


def _small_data() -> PTRConfig:
    return PTRConfig(
        targets=TargetConfig(kind="change"),
        scorer=ScorerConfig(num_folds=5),
        weights=WeightConfig(fallback="mean"),
    )


def _robust() -> PTRConfig:
    return PTRConfig(
        targets=TargetConfig(kind="change"),
        scorer=ScorerConfig(
            channels=("outcome", "action", "instruction"), num_folds=5, hidden_dim=256, temperature=0.1
        ),
        weights=WeightConfig(map="populations", warmup_steps=12_000),
        controller=ControllerConfig(enabled=False),
    )


PRESETS: dict[str, Callable[[], PTRConfig]] = {
    "paper": PTRConfig,
    "sft": _plain,
    "sft-belief": _belief_alone,
    "small-data": _small_data,
    "robust": _robust,
}


def _is_positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _require(holds: bool, name: str, value: Any, limit: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value}; it must be {limit}")


def _require_choice(name: str, value: str, options: tuple[str, ...]) -> None:
    if value not in options:
        raise ConfigError(f"{name} is {value!r}; {did_you_mean(value, options)}")
