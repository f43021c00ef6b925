"""FSDP2: each process keeps its share of weights, gradients and moments, and gathers a unit's weights when it runs.

``accelerate launch`` says whether a run is sharded (docs/being_h.md); what is gathered together is the policy's to say.
With belief tokens a unit runs several times in a step, and what one of its passes lets go of on the way back another
may still need: such a run gathers each unit once a step and keeps it until the backward pass has ended.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from ptr_robot.errors import ConfigError
from ptr_robot.train.module import TrainingModule


def is_sharded_run(accelerator: Any) -> bool:
    """Whether accelerate was told to shard; version 1 of FSDP is refused."""
    if os.environ.get("ACCELERATE_USE_FSDP", "false").lower() != "true" or accelerator.num_processes < 2:
        return False
    if os.environ.get("FSDP_VERSION", "1") != "2":
        raise ConfigError("accelerate is set up for FSDP 1; set fsdp_version: 2, as in configs/fsdp2.yaml")
    return True


class Sharding:
    """A training module whose parameters are spread over the processes."""

    def __init__(self, module: TrainingModule, device: torch.device, num_processes: int) -> None:
        self.module = module
        self._empty_policy = empty_copy(module.policy)
        self._empty_belief = empty_copy(module.ptr.belief) if module.ptr.belief is not None else None
        mesh = init_device_mesh(device.type, (num_processes,))
        self._is_gathered_once = module.ptr.belief is not None
        self._units = [*module.policy.sharded_units, *_target_blocks(module)]
        for unit in self._units:
            fully_shard(unit, mesh=mesh, reshard_after_forward=not self._is_gathered_once)
        sharded = {parameter for unit in self._units for parameter in unit.parameters()}
        fully_shard(module, mesh=mesh, ignored_params=sharded)
        if self._is_gathered_once:
            for unit in self._units:
                _fsdp(unit).set_reshard_after_backward(False)

    def end_backward(self) -> None:
        """Let go of what was kept for the backward pass; the optimiser works on the shares."""
        if self._is_gathered_once:
            for unit in self._units:
                _fsdp(unit).reshard()

    def whole_policy(self, *, is_kept: bool) -> Any:
        """The policy with all of its weights, to be saved; every process takes part, one keeps the result."""
        return _filled(self._empty_policy, whole_tensors(self.module.policy.state_dict(), is_kept=is_kept), is_kept)

    def whole_belief(self, *, is_kept: bool) -> Any:
        """The belief tokenizer with all of its weights."""
        belief = self.module.ptr.belief
        if belief is None or self._empty_belief is None:
            return None
        return _filled(self._empty_belief, whole_tensors(belief.state_dict(), is_kept=is_kept), is_kept)


def whole_tensors(tensors: dict[str, Tensor], *, is_kept: bool) -> dict[str, Tensor]:
    """Tensors gathered one by one from all processes; where they are not kept, each is let go of at once."""
    whole = {}
    for name, tensor in tensors.items():
        value = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if is_kept:
            whole[name] = value.detach().cpu() if isinstance(tensor, DTensor) else value
    return whole


def shared_like(value: Tensor, own: Tensor) -> Tensor:
    """This process's share of a whole tensor, where ``own`` is spread; otherwise the tensor."""
    if not isinstance(own, DTensor) or value.shape != own.shape:
        return value
    return distribute_tensor(value.to(own.device), own.device_mesh, own.placements, src_data_rank=None)


def empty_copy(module: nn.Module) -> nn.Module:
    """A copy whose parameters and buffers hold no numbers."""
    tensors = [*module.parameters(), *module.buffers()]
    memo: dict[int, Any] = {}
    for tensor in tensors:
        empty = torch.empty_like(tensor, device="meta")
        is_parameter = isinstance(tensor, nn.Parameter)
        memo[id(tensor)] = nn.Parameter(empty, requires_grad=tensor.requires_grad) if is_parameter else empty
    return copy.deepcopy(module, memo)


def _filled(empty: nn.Module, tensors: dict[str, Tensor], is_kept: bool) -> nn.Module | None:
    if not is_kept:
        return None
    filled = empty_copy(empty)
    filled.load_state_dict(tensors, assign=True)
    return filled


def _target_blocks(module: TrainingModule) -> list[nn.Module]:
    """The blocks of the EMA tower; its stem belongs to the whole, since its own pass ends in the middle."""
    encoder = module.ptr.target_encoder
    if encoder is None:
        return []
    blocks = encoder.tower.get_submodule(encoder.block_name.rpartition(".")[0])
    return [block for block in blocks.children() if any(True for _ in block.parameters())]


def _fsdp(unit: nn.Module) -> FSDPModule:
    assert isinstance(unit, FSDPModule)
    return unit
