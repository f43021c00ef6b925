"""PTR: chunks are weighted by their scores during training, as published and in two variants of ours."""

from __future__ import annotations

from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.train.methods.base import TrainingMethod
from ptr_robot.train.methods.registry import register_method


@register_method
class PTRMethod(TrainingMethod):
    """As published."""

    name = "ptr"
    aliases = ("paper",)

    def paper_config(self) -> PTRConfig:
        """The paper's."""
        return PTRConfig()


@register_method
class SmallDataPTR(TrainingMethod):
    """Change targets and cross-fitted heads, for a few hundred episodes."""

    name = "small-data"

    def paper_config(self) -> PTRConfig:
        """The paper's weights from a scorer that does not overfit small data."""
        return PTRConfig.preset("small-data")


@register_method
class RobustPTR(TrainingMethod):
    """Three channels, and weights by episode from two populations."""

    name = "robust"

    def paper_config(self) -> PTRConfig:
        """Zero weight on strong evidence."""
        return PTRConfig.preset("robust")
