"""α = 0 with belief and scorer off is plain fine-tuning, bit by bit."""

from __future__ import annotations

import torch
from torch import nn

from ptr_robot.method import PTR, ChunkForward, PTRConfig, Samples


def fine_tune(use_ptr: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    ptr = PTR(PTRConfig.preset("sft"), context_dim=4, action_dim=3, target_dim=4) if use_ptr else None
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    for _ in range(20):
        states = torch.randn(13, 4)  # drawn from the global generator, which PTR must not touch
        actions = states[:, :3].sin()
        losses = (policy(states) - actions).square().mean(dim=1)
        loss = losses.mean()
        if ptr is not None:
            chunk = ChunkForward(losses, states, actions.unsqueeze(1))
            samples = Samples(states, torch.ones(13, dtype=torch.bool), torch.arange(13))
            loss = ptr(chunk, samples).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if ptr is not None:
            ptr.update()
    return [parameter.detach() for parameter in policy.parameters()]


def test_the_sft_preset_is_bitwise_plain_fine_tuning():
    for mine, plain in zip(fine_tune(True), fine_tune(False), strict=True):
        assert mine.equal(plain)


def test_the_sft_preset_adds_no_parameters():
    ptr = PTR(PTRConfig.preset("sft"), context_dim=4, action_dim=3, target_dim=4)
    assert list(ptr.parameters()) == []
