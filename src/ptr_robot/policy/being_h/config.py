"""What Being-H0.5 is made of beyond the reference policy, and the switches between its checkpoint and the PTR paper."""

from __future__ import annotations

from dataclasses import dataclass

from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.policy.vla.config import PolicyConfig

TASK = "{task}"
STEPS = "{k}"
ATTENTIONS = ("causal", "paper")
SAMPLING_MARKERS = ("shared", "view")


@dataclass(frozen=True)
class GatingConfig:
    """Manifold-preserving gating (MPG): a second sampling, pulled towards the first one's manifold."""

    strength: float  # λ
    num_directions: int
    temperature: float = 1.0
    num_refinements: int = 1

    def __post_init__(self) -> None:
        for name in ("num_directions", "temperature", "num_refinements"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"gating.{name} is {getattr(self, name)}; it must be above 0")


@dataclass(frozen=True)
class LoraConfig:
    """Low-rank updates in place of training the streams in full."""

    rank: int = 16
    alpha: float = 32.0  # updates are scaled by alpha / rank
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha <= 0 or not 0 <= self.dropout < 1:
            raise ConfigError(
                f"lora has rank {self.rank}, alpha {self.alpha} and dropout {self.dropout}; they must be at least 1, "
                "above 0, and from 0 to below 1"
            )


@dataclass(frozen=True)
class BeingHConfig(PolicyConfig):
    """Being-H0.5; the defaults are what its checkpoints were trained with."""

    instruction: str = TASK  # what is asked in place of the bare task; may name the number of steps as {k}
    attention: str = "causal"  # "paper": text causal, each view and the actions bidirectional
    sampling_markers: str = "shared"  # at inference one pair of image markers for all views; "view": as in training
    gating: GatingConfig | None = None  # None: no MPG
    lora: LoraConfig | None = None  # None: every weight is trained
    base: str | None = None  # the checkpoint it came from: export takes from there what training leaves out

    def __post_init__(self) -> None:
        super().__post_init__()
        _require("attention", self.attention, ATTENTIONS)
        _require("sampling_markers", self.sampling_markers, SAMPLING_MARKERS)
        if self.vision is None or self.head != "flow" or self.num_state_tokens != 1:
            raise ConfigError("Being-H0.5 has a vision tower, a flow head and one state token; set no others")
        if TASK not in self.instruction:
            raise ConfigError(f"the instruction template {self.instruction!r} does not name {TASK}")

    @classmethod
    def sections(cls) -> dict[str, type]:
        """The fields that are configurations themselves."""
        return super().sections() | {"gating": GatingConfig, "lora": LoraConfig}


def _require(name: str, value: str, options: tuple[str, ...]) -> None:
    if value not in options:
        raise ConfigError(f"{name} is {value!r}; {did_you_mean(value, options)}")
