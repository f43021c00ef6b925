"""Where each tensor of a Being-H0.5 checkpoint lives in our policy: one table, read in both directions.

Names differ, and one order does: their pixel shuffle lays the channels of a square out as (row, column, channel), ours
as (channel, row, column). The connector's first two layers are permuted to match.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

LANGUAGE_HEAD = "language_model.lm_head.weight"
EXPERT = "_mot_gen"
SQUARE = 4  # patches that one token merges

# Prefixes, theirs and ours; of the language model see _trunk_name.
_PREFIXES = {
    "vit_model.embeddings.class_embedding": "vision.tower.model.cls_token",
    "vit_model.embeddings.position_embedding": "vision.tower.model.pos_embed",
    "vit_model.embeddings.patch_embedding.": "vision.tower.model.patch_embed.proj.",
    "vit_model.encoder.layers.": "vision.tower.model.blocks.",
    "connector.mlp1.": "vision.connector.project.",
    "proprio_encoder_robot.layer1.": "state_embedder.0.",
    "proprio_encoder_robot.layer2.": "state_embedder.2.",
    "action_encoder.W1.": "head.embedder.project.",
    "action_encoder.W2.": "head.embedder.mix.0.",
    "action_encoder.W3.": "head.embedder.mix.2.",
    "action_decoder.layer1.": "head.output.0.",
    "action_decoder.layer2.": "head.output.2.",
    "action_to_vlm_proj.": "head.gating.to_context.",
    "vlm_to_action_proj.": "head.gating.to_action.",
    "mpg.obs_proj.": "head.gating.observe.",
    "mpg.action_proj.": "head.gating.observe_clean.",
    "mpg.enhancement_proj.": "head.gating.enhance.",
}
_LEGACY_PREFIXES = {"state_encoder.": "proprio_encoder_robot."}
_LANGUAGE = "language_model.model."
_SHUFFLED = {"connector.mlp1.0.weight": 0, "connector.mlp1.0.bias": 0, "connector.mlp1.1.weight": 1}  # which dimension


def present_name(name: str) -> str:
    """A tensor's name in the present layout; earlier checkpoints spell some differently."""
    for old, new in _LEGACY_PREFIXES.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def our_name(name: str) -> str | None:
    """What a tensor of the checkpoint is called in our policy; None: a name that the layout does not have."""
    if name.startswith(_LANGUAGE):
        stream = "gen" if EXPERT in name else "und"
        return f"trunk.{stream}.{name.removeprefix(_LANGUAGE).replace(EXPERT, '')}"
    for theirs, ours in _PREFIXES.items():
        if name.startswith(theirs):
            return re.sub(r"\.(ls[12])$", r".\1.gamma", ours + name.removeprefix(theirs))
    return None


def their_names(names: Iterable[str]) -> dict[str, str]:
    """For each of our names the checkpoint's."""
    return {name: _their_name(name) for name in names}


def _their_name(name: str) -> str:
    for stream, suffix in (("trunk.und.", ""), ("trunk.gen.", EXPERT)):
        if name.startswith(stream):
            return _LANGUAGE + _mark_expert(name.removeprefix(stream), suffix)
    for theirs, ours in _PREFIXES.items():
        if name.startswith(ours):
            return re.sub(r"\.(ls[12])\.gamma$", r".\1", theirs + name.removeprefix(ours))
    raise KeyError(name)


def _mark_expert(name: str, suffix: str) -> str:
    """The suffix stands behind the module: ``mlp_mot_gen.up_proj``, but ``self_attn.q_proj_mot_gen``."""
    if not suffix:
        return name
    if ".mlp." in name:
        return name.replace(".mlp.", f".mlp{suffix}.")
    module, _, kind = name.rpartition(".")
    return f"{module}{suffix}.{kind}"


def permute_in(name: str, tensor: Tensor) -> Tensor:
    """A tensor of the checkpoint, by its name there, in our order of channels."""
    if name not in _SHUFFLED:
        return tensor
    channels = tensor.shape[_SHUFFLED[name]] // SQUARE
    order = torch.arange(tensor.shape[_SHUFFLED[name]]).view(SQUARE, channels).T.flatten()
    return tensor.index_select(_SHUFFLED[name], order.to(tensor.device))


def permute_out(name: str, tensor: Tensor) -> Tensor:
    """The inverse of ``permute_in``."""
    if name not in _SHUFFLED:
        return tensor
    channels = tensor.shape[_SHUFFLED[name]] // SQUARE
    order = torch.arange(tensor.shape[_SHUFFLED[name]]).view(channels, SQUARE).T.flatten()
    return tensor.index_select(_SHUFFLED[name], order.to(tensor.device))


def to_released(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors under the checkpoint's names and in its order of channels."""
    names = their_names(state)
    return {names[name]: permute_out(names[name], tensor).contiguous() for name, tensor in state.items()}
