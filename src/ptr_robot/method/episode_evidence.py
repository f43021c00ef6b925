"""Evidence pooled over an episode's chunks, and the weight that follows from it.

Faults last several chunks and a chunk's score is noisy; the mean over an episode's chunks is less so. Each channel's
means are compared within their task by a mixture of two populations (``mixture``); an episode counts as much as its
worst channel allows.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ptr_robot.method.mixture import TwoPopulations, fit_two_populations
from ptr_robot.method.ptr.config import WeightConfig

WINDOW = 128  # chunk scores that an episode's mean remembers
_CERTAINTY_MARGIN = 0.1  # a posterior within this of 0 or 1 counts as 0 or 1


class EpisodeEvidence(nn.Module):
    """The mean score of every episode and channel, and the weights they lead to; equal on all ranks."""

    means: Tensor
    counts: Tensor
    tasks: Tensor
    weights: Tensor

    def __init__(self, config: WeightConfig, *, num_episodes: int, num_channels: int) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("means", torch.zeros(num_episodes, num_channels))
        self.register_buffer("counts", torch.zeros(num_episodes))
        self.register_buffer("tasks", torch.zeros(num_episodes, dtype=torch.int64))
        self.register_buffer("weights", torch.ones(num_episodes))

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest weight that an episode can get."""
        return 0.0, 1.0

    @torch.no_grad()
    def observe(self, episode_ids: Tensor, task_ids: Tensor, scores: Tensor) -> None:  # (n,), (n,), (n, channels)
        """Take in the scores of ``n`` chunks against their step's mean: heads that learn raise all scores alike."""
        if len(episode_ids) == 0:
            return
        centred = scores - scores.mean(dim=0)
        added = torch.zeros_like(self.counts).index_add_(0, episode_ids, torch.ones_like(centred[:, 0]))
        sums = torch.zeros_like(self.means).index_add_(0, episode_ids, centred)
        seen = added > 0
        self.counts += added
        share = (added / self.counts.clamp(1, WINDOW)).clamp(max=1.0)
        step = share.unsqueeze(1) * (sums / added.clamp(min=1).unsqueeze(1) - self.means)
        self.means += torch.where(seen.unsqueeze(1), step, 0.0)
        self.tasks[episode_ids] = task_ids

    @torch.no_grad()
    def reweigh(self) -> None:
        """Fit the populations anew; an episode that was never seen keeps the weight one."""
        seen = self.counts > 0
        weights = torch.ones_like(self.weights)
        if seen.any():
            _, tasks = torch.unique(self.tasks[seen], return_inverse=True)
            allowed = torch.ones_like(weights[seen])
            for means in self.means[seen].unbind(1):
                allowed = torch.minimum(allowed, channel_weights(means, tasks))
            weights[seen] = keep_share(allowed, tasks, self.config.keep_share)
        self.weights.copy_(weights)


def channel_weights(means: Tensor, tasks: Tensor) -> Tensor:  # (E,), (E,) -> (E,) in [0, 1]
    """One channel's weights: the posterior of being good, mixed with one by the probability of a single population."""
    return population_weights(fit_two_populations(means.cpu(), tasks.cpu()), means, tasks)


def population_weights(populations: TwoPopulations | None, means: Tensor, tasks: Tensor) -> Tensor:  # (E,) in [0, 1]
    """The same from populations that were fitted before; all ones where there are none."""
    if populations is None:
        return torch.ones_like(means)
    posterior = populations.good_posterior(means.cpu().double(), tasks.cpu())
    allowed = ((posterior - _CERTAINTY_MARGIN) / (1 - 2 * _CERTAINTY_MARGIN)).clamp(0, 1)
    return (1 + populations.confidence * (allowed - 1)).to(means)


def keep_share(weights: Tensor, tasks: Tensor, share: float) -> Tensor:  # (E,), (E,) -> (E,)
    """Mix a task's weights with one until their mean is at least ``share``: over episodes no q/p exceeds 1 / share."""
    counts = torch.zeros(int(tasks.max()) + 1, device=weights.device).index_add_(0, tasks, torch.ones_like(weights))
    means = torch.zeros_like(counts).index_add_(0, tasks, weights) / counts.clamp(min=1)
    missing = ((share - means) / (1 - means).clamp(min=1e-9)).clamp(0, 1)[tasks]
    return weights + missing * (1 - weights)
