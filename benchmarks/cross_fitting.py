"""Does a scorer tell noise from signal, in sample and cross-fitted, and does the shared backbone leak?

    .venv/bin/python benchmarks/cross_fitting.py        # a few minutes on one core

Small synthetic sets of 24 episodes of 4 chunks, and a roomy backbone that is trained jointly. *Pure noise*: targets
have nothing to do with the inputs, so a judge that knows nothing of a sample ranks its target at the 50th percentile;
the inputs are wide and the targets narrow, which makes it easy for a backbone to carry what it should not. *Mixed*:
half of the episodes have a consequence that follows from the action, half have noise; the score should tell them apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ptr_robot.method import (
    PTR,
    BeliefConfig,
    ChunkForward,
    PoolConfig,
    PTRConfig,
    PTROutput,
    Samples,
    ScorerConfig,
    WeightConfig,
)
from ptr_robot.method.folds import assign_folds

EPISODES, CHUNKS, STEPS, SEEDS = 24, 4, (50, 300), 5


@dataclass(frozen=True)
class SyntheticSet:
    inputs: Tensor  # (N, Di)
    actions: Tensor  # (N, 4, 8)
    targets: Tensor  # (N, Dy)
    episodes: Tensor  # (N,)
    is_noise: Tensor  # (N,) bool


def make_set(seed: int, all_noise: bool) -> SyntheticSet:
    random = torch.Generator().manual_seed(seed)
    count = EPISODES * CHUNKS
    input_width, target_width = (64, 4) if all_noise else (16, 16)
    inputs = torch.randn(count, input_width, generator=random)
    actions = torch.randn(count, 4, 8, generator=random)
    consequence = 2 * actions.mean(dim=1) @ torch.randn(8, target_width, generator=random)
    consequence = consequence + 0.3 * inputs[:, :target_width]
    noise = torch.randn(count, target_width, generator=random) * consequence.std()
    episodes = torch.arange(count) // CHUNKS
    is_noise = torch.ones(count, dtype=torch.bool) if all_noise else episodes % 2 == 0
    targets = F.normalize(torch.where(is_noise.unsqueeze(1), noise, consequence), dim=1)
    return SyntheticSet(inputs, actions, targets, episodes, is_noise)


class Learner(nn.Module):
    """A backbone, an action embedder and PTR; PTR's weights stay one, only its scores are looked at."""

    def __init__(self, data: SyntheticSet, scorer: ScorerConfig) -> None:
        super().__init__()
        self.data = data
        width = data.inputs.shape[1]
        self.backbone = nn.Sequential(
            nn.Linear(width, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 64)
        )
        self.embed, self.head = nn.Linear(8, 32), nn.Linear(96, 1)
        config = PTRConfig(
            belief=BeliefConfig(enabled=False),
            pool=PoolConfig(queue_size=0),
            scorer=scorer,
            weights=WeightConfig(alpha=0.0),
        )
        self.ptr = PTR(config, context_dim=64, action_dim=32, target_dim=data.targets.shape[1])

    def forward(self) -> PTROutput:
        data = self.data
        contexts, tokens = self.backbone(data.inputs), self.embed(data.actions)
        predicted = self.head(torch.cat([contexts, tokens.mean(dim=1)], dim=1)).squeeze(1)
        losses = (predicted - data.inputs[:, 0]).square()
        count = len(data.inputs)
        valid = torch.ones(count, dtype=torch.bool)
        samples = Samples(data.targets, valid, torch.arange(count), episode_ids=data.episodes)
        return self.ptr(ChunkForward(losses, contexts, tokens), samples)

    @torch.no_grad()
    def percentile(self) -> float:
        """Where each own target ranks among all under the sample's own head; 0.5 is chance."""
        data, config = self.data, self.ptr.config
        folds = assign_folds(data.episodes, config.scorer.num_folds, config.seed)
        queries = self.ptr.scorer.heads(self.backbone(data.inputs), self.embed(data.actions).mean(dim=1))
        cosines = queries[folds, torch.arange(len(folds))] @ data.targets.T
        return float((cosines < cosines.diagonal().unsqueeze(1)).float().mean())


def train(data: SyntheticSet, scorer: ScorerConfig, seed: int) -> Iterator[Learner]:
    """The learner after each number of steps in STEPS."""
    torch.manual_seed(seed)
    learner = Learner(data, scorer)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=2e-3, weight_decay=0.01)
    for step in range(1, max(STEPS) + 1):
        optimizer.zero_grad()
        learner().loss.backward()
        optimizer.step()
        learner.ptr.update()
        if step in STEPS:
            yield learner


def auroc(good: Tensor, bad: Tensor) -> float:
    """The chance that a good sample scores higher than a bad one."""
    wins = (good.unsqueeze(1) > bad).float() + 0.5 * (good.unsqueeze(1) == bad).float()
    return float(wins.mean())


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def separation(learner: Learner) -> float:
    scores, is_noise = learner.eval()().scores, learner.data.is_noise
    learner.train()
    return auroc(scores[~is_noise], scores[is_noise])


def main() -> None:
    torch.set_num_threads(1)
    early, late = STEPS
    print(f"{SEEDS} seeds, mean ± standard deviation, after {early} and {late} steps")
    print(f"{'':28}  {'own target among noise':^27}  {'AUROC, signal against noise':^27}")
    print(f"{'folds':>5}  {'scorer reaches':<14}  {'λ_id':>5}  {early:>12}  {late:>13}  {early:>12}  {late:>13}")
    settings = [(folds, *rest) for folds in (1, 2, 5) for rest in ((False, 0.05), (False, 1.0), (True, 0.05))]
    for folds, detach, weight in settings:
        scorer = ScorerConfig(hidden_dim=128, num_folds=folds, detach_features=detach, identification_weight=weight)
        noise = [[x.percentile() for x in train(make_set(seed, True), scorer, seed)] for seed in range(SEEDS)]
        mixed = [[separation(x) for x in train(make_set(seed, False), scorer, seed)] for seed in range(SEEDS)]
        found = "  ".join(spread(list(column)) for table in (noise, mixed) for column in zip(*table, strict=True))
        print(f"{folds:5d}  {'heads alone' if detach else 'backbone':<14}  {weight:5.2f}  {found}", flush=True)


if __name__ == "__main__":
    main()
