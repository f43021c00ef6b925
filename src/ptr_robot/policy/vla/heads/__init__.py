"""Three action heads behind one interface, and the choice among them."""

from __future__ import annotations

from ptr_robot.policy.vla.config import PolicyConfig
from ptr_robot.policy.vla.heads.autoregressive import AutoregressiveHead
from ptr_robot.policy.vla.heads.base import ActionHead
from ptr_robot.policy.vla.heads.diffusion import DiffusionHead
from ptr_robot.policy.vla.heads.flow import FlowHead


def create_head(config: PolicyConfig) -> ActionHead:
    """The action head that the config names."""
    width = config.trunk.action.width
    if config.head == "flow":
        return FlowHead(config.flow, width, config.activation)
    if config.head == "diffusion":
        return DiffusionHead(config.diffusion, width, config.activation)
    return AutoregressiveHead(config.autoregressive, width)
