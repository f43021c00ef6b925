"""LoRA by peft, for those with one GPU: low-rank updates of both streams, everything small trained in full.

The vision tower, the token embeddings and the streams' own weights stay as they are; connector, state embedder and
action head learn as they would without LoRA.
"""

from __future__ import annotations

from torch import Tensor, nn

from ptr_robot.errors import require
from ptr_robot.policy.being_h.config import LoraConfig
from ptr_robot.policy.vla.policy import MixturePolicy

LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_BASE = ".base_layer."


def add_adapters(policy: MixturePolicy, config: LoraConfig) -> None:
    """Freeze the streams and the tower, and put trainable low-rank updates beside the streams' projections."""
    peft = require("peft", "lora")
    was_trained = {name: parameter.requires_grad for name, parameter in policy.trunk.named_parameters()}
    if policy.vision is not None:
        policy.vision.tower.requires_grad_(False)
    peft.inject_adapter_in_model(
        peft.LoraConfig(r=config.rank, lora_alpha=config.alpha, lora_dropout=config.dropout, target_modules=[*LAYERS]),
        policy.trunk,
    )
    for name, parameter in policy.trunk.named_parameters():
        adapted = name.partition(".lora_")[0] + ".weight"
        parameter.requires_grad_(".lora_" in name and was_trained.get(adapted, True))


def merged_state(policy: nn.Module) -> dict[str, Tensor]:
    """The policy's tensors under the names they have without LoRA, the updates added to the weights they belong to."""
    state = {name: tensor.detach() for name, tensor in policy.state_dict().items()}
    layers = {name: module for name, module in policy.named_modules() if f"{name}{_BASE}weight" in state}
    merged = {name.replace(_BASE, "."): tensor for name, tensor in state.items() if ".lora_" not in name}
    for name, layer in layers.items():
        for adapter in layer.active_adapters:
            merged[f"{name}.weight"] = merged[f"{name}.weight"] + layer.get_delta_weight(adapter).detach()
    return merged
