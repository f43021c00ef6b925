"""Being-H0.5 as a registered type: its flags, its published checkpoints, and our own folders of it."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.policy.being_h.adapters import add_adapters
from ptr_robot.policy.being_h.config import ATTENTIONS, BeingHConfig, LoraConfig
from ptr_robot.policy.being_h.load import build_empty, load_gating, load_released
from ptr_robot.policy.being_h.policy import BeingHPolicy
from ptr_robot.policy.being_h.released import is_released, read_released_config
from ptr_robot.policy.policy_files import WEIGHTS_FILE, load_weights, read_record
from ptr_robot.policy.policy_type import PolicyChoice, SavedPolicy
from ptr_robot.policy.registry import register_policy
from ptr_robot.policy.vla.config import PolicyConfig
from ptr_robot.policy.vla.registration import TOKENIZER_FOLDER, VLAType

UNUSED_SLOTS = ("noise", "zero")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BeingHChoice(PolicyChoice):
    """Being-H0.5: a published checkpoint or a run from one; what is not said stays as the checkpoint has it."""

    type: str = "being-h"
    # causal (the checkpoint's) or paper: text causal, each view and the actions bidirectional.
    attention: str | None = None
    # What stands in the slots that a robot lacks: noise (the checkpoint's) or zero (the paper's).
    unused_slots: str | None = None
    # Whether h_t, the context that PTR scores by, has read the state: yes in the checkpoint, no in the paper.
    context_sees_state: bool | None = None
    # With MPG: trained with it, and sampled twice.
    mpg: bool = False
    # Random crops and colours in training.
    augment: bool | None = None
    # Recompute activations on the way back: less memory, a third more operations.
    checkpoint_activations: bool | None = None
    # Train low-rank updates of both streams in place of their weights (peft); 0: train everything.
    lora_rank: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, options in (("attention", ATTENTIONS), ("unused_slots", UNUSED_SLOTS)):
            value = getattr(self, name)
            if value is not None and value not in options:
                raise ConfigError(f"policy.{name} is {value!r}; {did_you_mean(value, options)}")
        if self.lora_rank < 0:
            raise ConfigError(f"policy.lora_rank is {self.lora_rank}; it must be 0 or more")

    def configure(self, num_belief_tokens: int | None) -> BeingHConfig:  # noqa: ARG002
        """There is nothing to train from scratch here."""
        raise ConfigError("Being-H0.5 starts from a checkpoint; name one with --policy.path=FOLDER_OR_HUB_ID")

    def load_pretrained(self, policy: BeingHPolicy) -> None:
        """Apply the flags to a policy that was loaded as its checkpoint has it."""
        if self.mpg and policy.config.gating is None:
            load_gating(policy)
        policy.adopt(self._switched(policy.config))
        if self.lora_rank and policy.config.lora is None:
            lora = LoraConfig(rank=self.lora_rank, alpha=2.0 * self.lora_rank)
            add_adapters(policy, lora)
            policy.config = dataclasses.replace(policy.config, lora=lora)

    def _switched(self, config: BeingHConfig) -> BeingHConfig:
        vision, flow, trunk = config.vision, config.flow, config.trunk
        assert vision is not None
        if self.augment is not None:
            vision = dataclasses.replace(vision, augment=self.augment)
        if self.unused_slots is not None:
            flow = dataclasses.replace(flow, every_slot=self.unused_slots == "noise")
        if self.checkpoint_activations is not None:
            trunk = dataclasses.replace(trunk, checkpoint_activations=self.checkpoint_activations)
        return dataclasses.replace(
            config,
            vision=vision,
            flow=flow,
            trunk=trunk,
            attention=self.attention or config.attention,
            context_sees_state=config.context_sees_state
            if self.context_sees_state is None
            else self.context_sees_state,
        )


class BeingHType(VLAType):
    """Read from its released layout or from ours; saved in ours, with the checkpoint's own tokenizer."""

    def recognises(self, folder: Path) -> bool:
        """By the model type that its config.json names."""
        return is_released(folder)

    def load(self, folder: Path) -> SavedPolicy:
        """A published checkpoint is made for any robot of the unified space."""
        if is_released(folder):
            loaded = load_released(folder)
            _log.warning("%s: %s", folder, loaded.describe_left_out())
            return SavedPolicy(loaded.policy, robots=None)
        config = self.read_config(folder)
        language = dataclasses.replace(config.language, tokenizer=str(folder / TOKENIZER_FOLDER))
        policy = build_empty(dataclasses.replace(config, language=language))
        load_weights(policy, folder / WEIGHTS_FILE, assign=True)
        return SavedPolicy(policy.eval(), read_record(folder).robots)

    def read_config(self, folder: Path) -> BeingHConfig:
        """What the folder holds, without its weights."""
        config: PolicyConfig = read_released_config(folder) if is_released(folder) else super().read_config(folder)
        assert isinstance(config, BeingHConfig)
        return config

    def decode(self, values: dict[str, Any]) -> BeingHConfig:
        """Strictly: an unknown or missing field is an error that names it."""
        return BeingHConfig.from_dict(values)

    def resize(self, config: BeingHConfig) -> str:
        """As its checkpoints saw images."""
        assert config.vision is not None
        return config.vision.resize


register_policy(BeingHType(name="being-h", choice=BeingHChoice, config=BeingHConfig, policy=BeingHPolicy))
