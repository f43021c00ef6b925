"""Supervised fine-tuning: every chunk has the weight one, with or without belief tokens."""

from __future__ import annotations

from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.train.methods.base import TrainingMethod
from ptr_robot.train.methods.registry import register_method


@register_method
class SFT(TrainingMethod):
    """Plain fine-tuning."""

    name = "sft"

    def paper_config(self) -> PTRConfig:
        """Nothing of PTR is on."""
        return PTRConfig.preset("sft")


@register_method
class SFTWithBelief(TrainingMethod):
    """Fine-tuning of a policy with belief tokens."""

    name = "sft-belief"

    def paper_config(self) -> PTRConfig:
        """Belief tokens alone."""
        return PTRConfig.preset("sft-belief")
