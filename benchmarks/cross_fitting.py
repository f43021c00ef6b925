"""Does a scorer tell noise from signal, in sample and cross-fitted, and does the shared backbone leak?

    .venv/bin/python benchmarks/cross_fitting.py        # about five minutes on two cores

A small synthetic set: 24 episodes of 4 chunks. Either every target is pure noise (nothing can be identified, so any
mean score above zero is knowledge that a sample's judge should not have), or half of the episodes have a consequence
that follows from context and action and half have noise (the score should tell them apart). A roomy backbone is
trained jointly.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ptr_robot.method import PTR, BeliefConfig, ChunkForward, PTRConfig, Samples, ScorerConfig, WeightConfig

EPISODES, CHUNKS, WIDTH, STEPS, SEEDS = 24, 4, 16, 300, 5


@dataclass(frozen=True)
class SyntheticSet:
    inputs: Tensor  # (N, WIDTH)
    actions: Tensor  # (N, 4, 8)
    targets: Tensor  # (N, WIDTH)
    episodes: Tensor  # (N,)
    is_noise: Tensor  # (N,) bool


def make_set(seed: int, all_noise: bool) -> SyntheticSet:
    random = torch.Generator().manual_seed(seed)
    count = EPISODES * CHUNKS
    inputs = torch.randn(count, WIDTH, generator=random)
    actions = torch.randn(count, 4, 8, generator=random)
    mixing = torch.randn(8, WIDTH, generator=random)
    consequence = 2 * actions.mean(dim=1) @ mixing + 0.3 * inputs
    noise = torch.randn(count, WIDTH, generator=random) * consequence.std()
    episodes = torch.arange(count) // CHUNKS
    is_noise = torch.ones(count, dtype=torch.bool) if all_noise else episodes % 2 == 0
    targets = F.normalize(torch.where(is_noise.unsqueeze(1), noise, consequence), dim=1)
    return SyntheticSet(inputs, actions, targets, episodes, is_noise)


def scores_after_training(data: SyntheticSet, scorer: ScorerConfig, seed: int) -> Tensor:  # (N,)
    torch.manual_seed(seed)
    backbone = nn.Sequential(nn.Linear(WIDTH, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 64))
    embed, head = nn.Linear(8, 32), nn.Linear(96, 1)
    config = PTRConfig(belief=BeliefConfig(enabled=False), scorer=scorer, weights=WeightConfig(alpha=0.0))
    ptr = PTR(config, context_dim=64, action_dim=32, target_dim=WIDTH)
    modules = nn.ModuleList([backbone, embed, head, ptr])
    optimizer = torch.optim.AdamW(modules.parameters(), lr=1e-3, weight_decay=0.01)

    def forward(rows: Tensor):  # noqa: ANN202
        contexts, tokens = backbone(data.inputs[rows]), embed(data.actions[rows])
        predicted = head(torch.cat([contexts, tokens.mean(dim=1)], dim=1)).squeeze(1)
        losses = (predicted - data.inputs[rows, 0]).square()
        valid = torch.ones(len(rows), dtype=torch.bool)
        samples = Samples(data.targets[rows], valid, rows, episode_ids=data.episodes[rows])
        return ptr(ChunkForward(losses, contexts, tokens), samples)

    for _ in range(STEPS):
        optimizer.zero_grad()
        forward(torch.randperm(len(data.inputs))[:48]).loss.backward()
        optimizer.step()
        ptr.update()
    ptr.eval()
    with torch.no_grad():
        return forward(torch.arange(len(data.inputs))).scores


def auroc(good: Tensor, bad: Tensor) -> float:
    """The chance that a good sample scores higher than a bad one."""
    wins = (good.unsqueeze(1) > bad).float() + 0.5 * (good.unsqueeze(1) == bad).float()
    return float(wins.mean())


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):+.2f} ± {statistics.stdev(values):.2f}"


def main() -> None:
    torch.set_num_threads(1)
    print(f"{SEEDS} seeds, mean ± standard deviation; {STEPS} steps")
    titles = f"{'score on pure noise':>20}  {'AUROC, signal against noise':>28}"
    print(f"{'folds':>5}  {'scorer reaches':<14}  {'λ_id':>5}  {titles}")
    for folds in (1, 2, 5):
        for detach in (False, True):
            for weight in (0.05, 1.0):
                if detach and weight != 0.05:
                    continue
                scorer = ScorerConfig(
                    hidden_dim=128, num_folds=folds, detach_features=detach, identification_weight=weight
                )
                noise, separation = [], []
                for seed in range(SEEDS):
                    noise.append(float(scores_after_training(make_set(seed, True), scorer, seed).mean()))
                    mixed = make_set(seed, False)
                    scores = scores_after_training(mixed, scorer, seed)
                    separation.append(auroc(scores[~mixed.is_noise], scores[mixed.is_noise]))
                reach = "heads alone" if detach else "backbone"
                print(
                    f"{folds:5d}  {reach:<14}  {weight:5.2f}  {spread(noise):>20}  {spread(separation):>28}", flush=True
                )


if __name__ == "__main__":
    main()
