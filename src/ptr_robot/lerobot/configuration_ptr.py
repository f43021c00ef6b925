"""The configs that ``--policy.type=ptr_*`` names; LeRobot finds policies and processors by this module's name."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig

from ptr_robot.lerobot.settings import PTRSettings


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
