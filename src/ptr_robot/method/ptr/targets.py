"""Targets: an EMA copy of a vision tower, cut after a block, turns observations into consequences (Section 4.2)."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from ptr_robot.errors import ConfigError, ShapeError, did_you_mean
from ptr_robot.method.ptr.eager import runs_eagerly


class EMATargetEncoder(nn.Module):
    """g: a slowly moving copy of the policy's vision tower that ends after one of its blocks.

    Works on any module whose forward pass runs its blocks in order: a hook on the chosen block keeps its output and
    ends the pass. The later blocks of the same list are dropped from the copy; with an ``example`` so is every other
    module that the pass never comes to, such as the last stages of a ResNet.
    """

    def __init__(
        self,
        tower: nn.Module,
        *,
        block: int | str | None = None,
        num_prefix_tokens: int = 0,
        example: Tensor | None = None,  # (n, 3, H, W)
    ) -> None:
        """``block``: how many blocks to keep (default half), or a module's dotted name for towers without a block list.

        ``num_prefix_tokens`` leading tokens (class and register tokens) are left out of the mean over patches.
        ``example`` images are sent through once, to learn which modules the cut pass needs.
        """
        super().__init__()
        self.num_prefix_tokens = num_prefix_tokens
        self.is_channels_last = any(getattr(part, "output_fmt", None) == "NHWC" for part in tower.modules())  # timm's
        self.block_name = resolve_block(tower, block)
        # Float32 whatever the tower's precision: a step of 1 − μ = 0.001 is lost to rounding in bfloat16.
        self.tower = copy.deepcopy(tower).float().eval().requires_grad_(False)
        _drop_later_blocks(self.tower, self.block_name)
        if example is not None:
            self._drop_unreached(example)

    @torch.no_grad()  # targets are constants: the encoder is a teacher, not an online head
    def forward(self, images: Tensor) -> Tensor:  # (..., V, 3, H, W) -> (..., Dy)
        """Mean over patches and views of the cut tower's features, not yet normalised."""
        if images.dim() < 4:
            raise ShapeError(f"images have shape {tuple(images.shape)}; expected (..., views, channels, height, width)")
        features = self._run(images.flatten(0, -4))  # tokens (n, P, D) or a map (n, D, H, W), (n, H, W, D)
        pooled = pool_patches(features, self.num_prefix_tokens, is_channels_last=self.is_channels_last)
        return pooled.reshape(*images.shape[:-3], -1).mean(dim=-2)

    @torch.no_grad()
    def update(self, tower: nn.Module, decay: float) -> None:
        """g ← μ g + (1 − μ) v with μ = ``decay``; buffers such as batch-norm statistics are copied."""
        online = dict(tower.named_parameters())
        names = [name for name, _ in self.tower.named_parameters()]
        if missing := [name for name in names if name not in online]:
            raise ConfigError(
                f"the tower given to update() has no parameter {missing[0]!r}; give the tower the encoder was made from"
            )
        if decay < 1:
            mine = list(self.tower.parameters())
            theirs = [online[name].detach().to(own) for name, own in zip(names, mine, strict=True)]
            average = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
            average(mine, theirs, 0)
            buffers = dict(tower.named_buffers())
            for name, buffer in self.tower.named_buffers():
                buffer.copy_(buffers[name])

    def train(self, mode: bool = True) -> EMATargetEncoder:  # noqa: ARG002
        """Stay in evaluation mode: a target must not depend on dropout or on its batch."""
        return super().train(False)

    @torch.no_grad()
    def _drop_unreached(self, example: Tensor) -> None:
        """Leave out modules beside the block's ancestors that have not been called when the pass ends.

        A module's parameters can be read without a call, so the features are compared and the module put back where
        they changed.
        """
        before, called = self._run_watched(example)
        for parent in _ancestors(self.tower, self.block_name):
            for name, child in list(parent.named_children()):
                if called.isdisjoint(child.modules()) and any(True for _ in child.parameters()):
                    setattr(parent, name, nn.Identity())
                    if not self._gives(before, example):
                        setattr(parent, name, child)

    def _run_watched(self, images: Tensor) -> tuple[Tensor, set[nn.Module]]:
        called: set[nn.Module] = set()
        handles = [
            module.register_forward_pre_hook(lambda module, _inputs: called.add(module))
            for module in self.tower.modules()
        ]
        try:
            return self._run(images), called
        finally:
            for handle in handles:
                handle.remove()

    def _gives(self, features: Tensor, images: Tensor) -> bool:
        try:
            return torch.equal(self._run(images), features)
        except Exception:  # an Identity in the place of what was read: whatever that raises, the module is needed
            return False

    @runs_eagerly  # a hook that ends the pass by an exception cannot be traced
    def _run(self, images: Tensor) -> Tensor:
        handle = self.tower.get_submodule(self.block_name).register_forward_hook(_end_here)
        try:
            self.tower(images)
        except _BlockReachedError as reached:
            return reached.features
        finally:
            handle.remove()
        raise ConfigError(f"the tower's forward pass never ran its block {self.block_name!r}")


class _BlockReachedError(Exception):
    """Carries a block's output out of a forward pass that need not go on."""

    def __init__(self, features: Tensor) -> None:
        super().__init__()
        self.features = features


def _end_here(_module: nn.Module, _inputs: object, output: object) -> None:
    features = output[0] if isinstance(output, tuple) else output
    if not isinstance(features, Tensor):
        raise ShapeError(
            f"the tower's block gives a {type(features).__name__}; expected a tensor or a tuple of tensors"
        )
    raise _BlockReachedError(features)


def resolve_block(tower: nn.Module, block: int | str | None) -> str:
    """The dotted name of the block after which the tower is cut; half-way where ``block`` is None."""
    if isinstance(block, str):
        names = [name for name, _ in tower.named_modules() if name]
        if block not in names:
            raise ConfigError(f"the vision tower has no module {block!r}; {did_you_mean(block, names)}")
        return block
    names = _block_names(tower)
    depth = len(names)
    keep = max(1, depth // 2) if block is None else block
    if not 1 <= keep <= depth:
        parent = names[0].rpartition(".")[0]
        raise ConfigError(f"block is {block}; {parent!r} has {depth} blocks, so it must be 1 to {depth}")
    return names[keep - 1]


def _block_names(tower: nn.Module) -> list[str]:
    """The longest list of modules of one class: what every transformer calls its blocks or layers.

    A tower of equal stages has several such lists of one class; their blocks follow each other.
    """
    lists = [
        (name, list(module))
        for name, module in tower.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential) and name and len({type(child) for child in module}) == 1
    ]
    if not lists:
        names = ", ".join(name for name, _ in tower.named_children())
        raise ConfigError(
            f"the vision tower has no list of blocks; name the module to cut after, for example one of: {names}"
        )
    longest = max(lists, key=lambda item: len(item[1]))[1]
    return [
        f"{name}.{number}"
        for name, blocks in lists
        if len(blocks) == len(longest) and type(blocks[0]) is type(longest[0])
        for number in range(len(blocks))
    ]


def _drop_later_blocks(tower: nn.Module, block_name: str) -> None:
    parent_name, _, last = block_name.rpartition(".")
    parent = tower.get_submodule(parent_name)
    if isinstance(parent, nn.ModuleList | nn.Sequential):
        names = [name for name, _ in parent.named_children()]
        for later in names[names.index(last) + 1 :]:
            setattr(parent, later, nn.Identity())


def _ancestors(tower: nn.Module, block_name: str) -> list[nn.Module]:
    """The modules around the block, whose own pass is cut short with it."""
    parts = block_name.split(".")
    return [tower.get_submodule(".".join(parts[:depth])) for depth in range(len(parts))]


def pool_patches(features: Tensor, num_prefix_tokens: int, *, is_channels_last: bool = False) -> Tensor:  # -> (n, D)
    """Mean over the patches of tokens (n, P, D) or of a feature map (n, D, H, W), or (n, H, W, D) channels last."""
    if features.dim() == 4:
        return features.float().mean(dim=(1, 2) if is_channels_last else (2, 3))
    if features.dim() == 3 and features.shape[1] > num_prefix_tokens:
        return features[:, num_prefix_tokens:].float().mean(dim=1)
    raise ShapeError(
        f"the tower's block gives features of shape {tuple(features.shape)}; expected (n, tokens, dim) with more than "
        f"{num_prefix_tokens} tokens, or (n, dim, height, width)"
    )


def make_targets(
    features_after: Tensor,  # (..., Dy)
    features_before: Tensor | None = None,  # (..., Dy), needed for "change"
    *,
    kind: str = "future",
    eps: float = 1e-6,
) -> Tensor:  # (..., Dy)
    """L2-normalised consequence: the features after, or what changed from before to after."""
    if kind == "change":
        if features_before is None:
            raise ConfigError("targets of kind 'change' need the features before the action as well as after")
        features_after = features_after - features_before
    # Cuts the path into the encoder: queries learn to meet the targets, never the targets to meet them.
    return F.normalize(features_after.detach().float(), dim=-1, eps=eps)
