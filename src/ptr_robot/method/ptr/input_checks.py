"""Looks at what enters PTR, and fails on all ranks together where one of them got something it cannot use."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ptr_robot.errors import NonFiniteError, PTRError, ShapeError
from ptr_robot.method.distributed import RankLayout, gather_flags, is_distributed
from ptr_robot.method.types import ChunkForward, Samples

_PROBLEMS: tuple[tuple[type[PTRError], str], ...] = (
    (NonFiniteError, "action_losses hold NaN or infinity; check the policy's loss and the recorded actions"),
    (NonFiniteError, "contexts hold NaN or infinity; check the policy's forward pass"),
    (NonFiniteError, "action_tokens hold NaN or infinity; check the recorded actions"),
    (NonFiniteError, "action_states hold NaN or infinity; check the policy's forward pass"),
    (NonFiniteError, "targets hold NaN or infinity where has_target is True; check the future observations"),
    (ShapeError, "action_is_pad is True at every step of a chunk; mark such chunks in chunk_is_pad"),
    (NonFiniteError, "offsets hold a negative, NaN or infinite value; give Δ' >= 0"),
    (NonFiniteError, "states hold NaN or infinity; check the recorded proprioception"),
    (NonFiniteError, "action_targets hold NaN or infinity; check the recorded actions"),
    (NonFiniteError, "prior_weights hold a negative, NaN or infinite value; give factors of zero or more"),
    (PTRError, "another rank could not use its input; its own error says why"),
)


@dataclass(frozen=True)
class Widths:
    """The last dimension of each tensor that enters PTR."""

    context: int  # Dh
    action: int  # Da
    action_state: int  # Dc
    target: int  # Dy
    state: int  # S
    action_target: int = 0  # Dt


def check_shapes(chunk: ChunkForward, samples: Samples, widths: Widths) -> None:
    """Compare every shape and type with what PTR was built for; costs no wait on the device."""
    count = chunk.action_losses.shape[0] if chunk.action_losses.dim() == 1 else -1
    if count < 1:
        raise ShapeError(
            f"action_losses have shape {tuple(chunk.action_losses.shape)}; expected (N,) with N >= 1: "
            "one loss a sample, not reduced"
        )
    length = chunk.action_tokens.shape[1] if chunk.action_tokens.dim() == 3 else "L"
    _expect("contexts", chunk.contexts, (count, widths.context))
    _expect("action_tokens", chunk.action_tokens, (count, length, widths.action))
    _expect("action_states", chunk.action_states, (count, length, widths.action_state))
    _expect("action_is_pad", chunk.action_is_pad, (count, length), torch.bool)
    _expect("targets", samples.targets, (count, widths.target))
    _expect("has_target", samples.has_target, (count,), torch.bool)
    _expect("sample_ids", samples.sample_ids, (count,), torch.int64)
    for name in ("episode_ids", "task_ids", "source_ids"):
        _expect(name, getattr(samples, name), (count,), torch.int64)
    _check_states(samples.states, count, widths.state)
    _expect("offsets", samples.offsets, (count,))
    _expect("chunk_is_pad", samples.chunk_is_pad, (count,), torch.bool)
    _expect("prior_weights", samples.prior_weights, (count,))
    if widths.action_target:
        if samples.action_targets is None:
            raise ShapeError(
                f"PTR was built with action_target_dim={widths.action_target}, but samples.action_targets is missing"
            )
        _expect("action_targets", samples.action_targets, (count, widths.action_target))


def _check_states(states: Tensor | None, count: int, width: int) -> None:
    if states is None and width:
        raise ShapeError(f"PTR was built with state_dim={width}, but samples.states is missing")
    if states is not None and not width:
        raise ShapeError(
            f"samples.states has shape {tuple(states.shape)}, but PTR was built without state_dim; "
            f"give PTR(state_dim={states.shape[-1]})"
        )
    _expect("states", states, (count, width))


def agree_on_layout(
    chunk: ChunkForward, samples: Samples, *, problem: PTRError | None, check_values: bool
) -> RankLayout:
    """The rows of each rank; raises on every rank if any rank has a ``problem`` or values it cannot use."""
    if not is_distributed():
        if problem is not None:
            raise problem
        if not check_values:
            return RankLayout(0, (chunk.action_losses.shape[0],))
    device = chunk.action_losses.device
    count = torch.tensor([0 if problem else chunk.action_losses.shape[0]], device=device)
    flags = torch.zeros(len(_PROBLEMS), dtype=torch.int64, device=device)
    if problem is not None:
        flags[-1] = 1
    elif check_values:
        flags = _value_flags(chunk, samples).long()
    gathered = gather_flags(torch.cat([count, flags]))
    if problem is not None:
        raise problem
    for rank, (_, *problems) in enumerate(gathered):
        for is_wrong, (kind, message) in zip(problems, _PROBLEMS, strict=True):
            if is_wrong:
                where = f" (rank {rank})" if len(gathered) > 1 else ""
                raise kind(message + where)
    rank = torch.distributed.get_rank() if len(gathered) > 1 else 0
    return RankLayout(rank, tuple(row[0] for row in gathered))


def _value_flags(chunk: ChunkForward, samples: Samples) -> Tensor:  # (problems,) bool
    """One flag a problem; what padding chunks hold is nobody's concern."""
    is_real = torch.ones_like(samples.has_target) if samples.chunk_is_pad is None else ~samples.chunk_is_pad
    never = torch.zeros((), dtype=torch.bool, device=is_real.device)

    def is_broken(values: Tensor | None, counts: Tensor = is_real) -> Tensor:
        return never if values is None else (~values.isfinite().flatten(1).all(dim=1) & counts).any()

    return torch.stack(
        [
            is_broken(chunk.action_losses.unsqueeze(1)),
            is_broken(chunk.contexts),
            is_broken(chunk.action_tokens),
            is_broken(chunk.action_states),
            is_broken(samples.targets, samples.has_target & is_real),
            never if chunk.action_is_pad is None else (chunk.action_is_pad.all(dim=1) & is_real).any(),
            never
            if samples.offsets is None
            else (~((samples.offsets >= 0) & samples.offsets.isfinite()) & is_real).any(),
            is_broken(samples.states),
            is_broken(samples.action_targets),
            never
            if samples.prior_weights is None
            else ~((samples.prior_weights >= 0) & samples.prior_weights.isfinite()).all(),
            never,
        ]
    )


def _expect(name: str, value: Tensor | None, shape: tuple[int | str, ...], dtype: torch.dtype | None = None) -> None:
    """Letters in ``shape`` stand for any size; None values are optional and pass."""
    if value is None:
        return
    fits = value.dim() == len(shape) and all(
        isinstance(wanted, str) or got == wanted for got, wanted in zip(value.shape, shape, strict=True)
    )
    if not fits:
        wanted_text = ", ".join(str(size) for size in shape)
        raise ShapeError(f"{name} has shape {tuple(value.shape)}; expected ({wanted_text})")
    if dtype is not None and value.dtype != dtype:
        raise ShapeError(f"{name} has type {value.dtype}; expected {dtype}")
