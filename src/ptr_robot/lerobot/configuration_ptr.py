"""The configs that ``--policy.type=ptr_*`` names; LeRobot finds policies and processors by this module's name."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.configs.policies import PreTrainedConfig
from lerobot.configs.types import NormalizationMode
from lerobot.optim.optimizers import AdamWConfig
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig

from ptr_robot.errors import ConfigError
from ptr_robot.lerobot.settings import BelievingSettings, PTRSettings


class PTRDeltas:
    """Which frames and actions of an episode a training sample holds; comes before the base config."""

    ptr: PTRSettings
    n_action_steps: int

    @property
    def offset_steps(self) -> int:
        """Δ in frames."""
        return self.ptr.offset_steps or self.n_action_steps

    @property
    def observation_delta_indices(self) -> list[int]:
        """The base policy's history, and one frame every Δ up to the last chunk's consequence."""
        history = self.base_observation_deltas()
        later = [self.offset_steps * number for number in range(1, self.ptr.chunks + 1)]
        return [*(history or [0]), *later]

    @property
    def action_delta_indices(self) -> list[int]:
        """Those of all chunks, which start Δ apart."""
        first, *_, last = self.base_action_deltas()
        return list(range(first, last + 1 + self.offset_steps * (self.ptr.chunks - 1)))

    def base_observation_deltas(self) -> list[int] | None:
        """What the policy itself looks at."""
        deltas: list[int] | None = super().observation_delta_indices  # type: ignore[misc]
        return deltas

    def base_action_deltas(self) -> list[int]:
        """The steps of one chunk."""
        deltas: list[int] = super().action_delta_indices  # type: ignore[misc]
        return deltas


@PreTrainedConfig.register_subclass("ptr_act")
@dataclass
class PTRACTConfig(PTRDeltas, ACTConfig):  # type: ignore[misc]
    """ACT with PTR."""

    ptr: PTRSettings = field(default_factory=PTRSettings)


@PreTrainedConfig.register_subclass("ptr_diffusion")
@dataclass
class PTRDiffusionConfig(PTRDeltas, DiffusionConfig):  # type: ignore[misc]
    """Diffusion Policy with PTR."""

    ptr: PTRSettings = field(default_factory=PTRSettings)


@PreTrainedConfig.register_subclass("ptr_smolvla")
@dataclass
class PTRSmolVLAConfig(PTRDeltas, SmolVLAConfig):  # type: ignore[misc]
    """SmolVLA with PTR; belief tokens with --policy.ptr.belief.enabled=true."""

    ptr: PTRSettings = field(default_factory=PTRSettings)


@dataclass
class _VLAConfig(PreTrainedConfig):  # type: ignore[misc]
    """The reference VLA without PTR: not a type of its own."""

    # tiny, small or being-h05: the sizes of the policy.
    preset: str = "tiny"
    # A built-in robot or the path of a YAML file: which dimension is which; by default the dataset's own order.
    robot: str | None = None
    chunk_size: int = 16
    n_action_steps: int = 16
    optimizer_lr: float = 1e-4
    optimizer_weight_decay: float = 1e-4
    normalization_mapping: dict[str, NormalizationMode] = field(
        default_factory=lambda: {
            "VISUAL": NormalizationMode.IDENTITY,
            "STATE": NormalizationMode.MEAN_STD,
            "ACTION": NormalizationMode.MEAN_STD,
        }
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.n_action_steps <= self.chunk_size:
            raise ConfigError(
                f"policy.n_action_steps is {self.n_action_steps}; it must be 1 to chunk_size ({self.chunk_size})"
            )

    @property
    def observation_delta_indices(self) -> list[int] | None:
        """The present alone."""
        return None

    @property
    def action_delta_indices(self) -> list[int]:
        """One chunk."""
        return list(range(self.chunk_size))

    @property
    def reward_delta_indices(self) -> None:
        """No rewards."""
        return None

    def get_optimizer_preset(self) -> AdamWConfig:
        """AdamW."""
        return AdamWConfig(lr=self.optimizer_lr, weight_decay=self.optimizer_weight_decay)

    def get_scheduler_preset(self) -> None:
        """A constant learning rate."""

    def validate_features(self) -> None:
        """Refuse data without actions or images."""
        if self.action_feature is None:
            raise ConfigError("the dataset has no 'action'")


@PreTrainedConfig.register_subclass("ptr_vla")
@dataclass
class PTRVLAConfig(PTRDeltas, _VLAConfig):
    """The reference VLA with PTR and belief tokens."""

    ptr: BelievingSettings = field(default_factory=BelievingSettings)
    context_sees_state: bool = False  # whether h_t has read the state; in the paper it has not
