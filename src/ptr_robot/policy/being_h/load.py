"""A policy from a Being-H0.5 checkpoint: built without weights, filled tensor by tensor, nothing left over unnamed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ptr_robot.errors import ConfigError, DataError
from ptr_robot.policy.being_h.config import BeingHConfig
from ptr_robot.policy.being_h.policy import BeingHPolicy
from ptr_robot.policy.being_h.released import is_released, read_released_config
from ptr_robot.policy.being_h.shards import StoredTensor, list_tensors, read_tensors
from ptr_robot.policy.being_h.tensor_names import LANGUAGE_HEAD, our_name, permute_in, their_names

_GATING = ("mpg.", "action_to_vlm_proj.", "vlm_to_action_proj.")


@dataclass(frozen=True)
class LoadedBeingH:
    """The policy, and the names of the tensors that it has no use for."""

    policy: BeingHPolicy
    left_out: tuple[str, ...]

    def describe_left_out(self) -> str:
        """One line for the user."""
        parts = [f"the language head ({LANGUAGE_HEAD})"] if LANGUAGE_HEAD in self.left_out else []
        if gating := [name for name in self.left_out if name != LANGUAGE_HEAD]:
            parts.append(f"MPG ({len(gating)} tensors)")
        return "left out of the policy: " + (" and ".join(parts) or "nothing")


def load_released(folder: Path, *, has_gating: bool = False) -> LoadedBeingH:
    """Read a checkpoint in the released layout, in float32; ``has_gating``: with MPG."""
    config = read_released_config(folder, has_gating=has_gating)
    stored = list_tensors(folder)
    policy = build_empty(config)
    wanted = their_names(policy.state_dict())
    left_out = _check(stored, {wanted[name]: tensor for name, tensor in policy.state_dict().items()}, folder)
    used = {name: entry for name, entry in stored.items() if name not in left_out}
    state: dict[str, Tensor] = {}
    for name, tensor in read_tensors(used):
        ours = our_name(name)
        assert ours is not None
        state[ours] = permute_in(name, tensor.float())
    policy.load_state_dict(state, assign=True)
    return LoadedBeingH(policy.eval(), left_out)


def load_gating(policy: BeingHPolicy) -> None:
    """Add MPG to a policy that was loaded without it, from the checkpoint that it came from."""
    if policy.config.base is None or not is_released(Path(policy.config.base)):
        raise ConfigError(f"MPG is read from the published checkpoint, which is no longer at {policy.config.base}")
    whole = load_released(Path(policy.config.base), has_gating=True).policy
    policy.head.gating = whole.head.gating
    policy.config = dataclasses.replace(policy.config, gating=whole.config.gating)


def build_empty(config: BeingHConfig) -> BeingHPolicy:
    """The policy with parameters on the meta device, which hold no numbers, and buffers that do."""
    with torch.device("meta"):
        policy = BeingHPolicy(config)
    policy.restore_buffers()
    return policy


def _check(stored: Mapping[str, StoredTensor], own: Mapping[str, Tensor], folder: Path) -> tuple[str, ...]:
    """Refuse what does not fit, and name what is not needed."""
    for name, tensor in own.items():
        if name not in stored:
            raise DataError(f"{folder} lacks the tensor {name!r}; fetch the checkpoint again")
        if stored[name].shape != tuple(tensor.shape):
            raise DataError(
                f"{folder}: the tensor {name!r} has shape {stored[name].shape} and its config.json describes "
                f"{tuple(tensor.shape)}; fetch both from one place"
            )
    left_out = sorted(set(stored) - set(own))
    for name in left_out:
        if name != LANGUAGE_HEAD and not name.startswith(_GATING):
            raise DataError(f"{folder} holds the tensor {name!r}, which Being-H0.5 lacks; is it another model?")
    return tuple(left_out)
