"""The configs of ``--policy.type=ptr_pi0`` and ``ptr_pi05``; LeRobot finds the policies by this module's name."""

from __future__ import annotations

from dataclasses import dataclass, field

from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.pi0.configuration_pi0 import PI0Config
from lerobot.policies.pi05.configuration_pi05 import PI05Config

from ptr_robot.data.lerobot.compat import is_lerobot06
from ptr_robot.errors import ConfigError
from ptr_robot.lerobot.configuration_ptr import PTRDeltas
from ptr_robot.lerobot.settings import PTRSettings


class PTRPiDeltas(PTRDeltas):
    """As for every policy, where there is one such policy to train."""

    type: str
    use_relative_actions: bool

    def __post_init__(self) -> None:
        if not is_lerobot06():
            base = self.type.removeprefix("ptr_")
            raise ConfigError(
                f"{self.type} needs LeRobot 0.6 (Python 3.12 or later): the {base} of this one needs a patched "
                f"transformers; train {base} there, or ptr_smolvla here"
            )
        super().__post_init__()  # type: ignore[misc]
        if self.ptr.chunks > 1 and (self.type == "ptr_pi05" or self.use_relative_actions):
            raise ConfigError(
                f"policy.ptr.num_chunks is {self.ptr.chunks}; {self.type} needs 1: its processor writes the present "
                "state into the prompt or takes it off the actions, and knows no second present"
            )


@PreTrainedConfig.register_subclass("ptr_pi0")
@dataclass
class PTRPI0Config(PTRPiDeltas, PI0Config):  # type: ignore[misc]
    """π0 with PTR."""

    ptr: PTRSettings = field(default_factory=PTRSettings)


@PreTrainedConfig.register_subclass("ptr_pi05")
@dataclass
class PTRPI05Config(PTRPiDeltas, PI05Config):  # type: ignore[misc]
    """π0.5 with PTR."""

    ptr: PTRSettings = field(default_factory=PTRSettings)
