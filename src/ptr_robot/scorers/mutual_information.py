"""Mutual information of states and actions, as DemInf scores demonstrations: little of it, little to learn.

The estimator of Kraskov, Stögbauer and Grassberger, a sample at a time: with the distance to the k-th neighbour in the
joint space, ψ(k) + ψ(N) − ψ(n_state + 1) − ψ(n_action + 1), where n counts the samples that are nearer in each space
alone. It is computed in random batches and averaged by episode.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ptr_robot.scorers.base import SuspicionRule
from ptr_robot.scorers.registry import register_scorer
from ptr_robot.scorers.tracks import EpisodeSet, mean_by_owner, whole_chunks

NUM_NEIGHBOURS = 5
BATCH_SIZE = 1024
NUM_PASSES = 4


@register_scorer
class MutualInformation(SuspicionRule):
    """Episodes whose actions their states say little about."""

    name = "mutual-information"
    title = "KSG mutual information"

    def suspicions(self, episodes: EpisodeSet) -> list[float]:
        """Minus the mean contribution of an episode's samples, in nats."""
        chunks = whole_chunks(episodes.tracks, episodes.chunk_length)
        states, actions = (_standardised(torch.from_numpy(part)) for part in (chunks.states, chunks.actions))
        generator = np.random.default_rng(episodes.seed)
        totals, counts = np.zeros(len(states)), np.zeros(len(states))
        for _ in range(NUM_PASSES):
            order = generator.permutation(len(states))
            for batch in np.array_split(order, max(1, round(len(order) / BATCH_SIZE))):
                totals[batch] += contributions(states[batch], actions[batch]).numpy()
                counts[batch] += 1
        return [-value for value in mean_by_owner(totals / counts, chunks.owners, len(episodes.tracks))]


def contributions(states: Tensor, actions: Tensor) -> Tensor:  # (n, Ds), (n, Da) -> (n,)
    """Of every sample to the mutual information of the batch."""
    num = len(states)
    neighbours = min(NUM_NEIGHBOURS, num - 1)
    if neighbours < 1:
        return torch.zeros(num, dtype=torch.float64)
    apart = [torch.cdist(part, part, p=float("inf")) for part in (states, actions)]
    joint = torch.maximum(*apart)
    radius = joint.topk(neighbours + 1, largest=False).values[:, -1:]  # the nearest of all is the sample itself
    nearer = [(distances < radius).sum(dim=1).clamp(min=1) for distances in apart]  # with the sample itself
    digamma = [torch.digamma(count.double()) for count in nearer]
    constants = torch.digamma(torch.tensor([float(neighbours), float(num)], dtype=torch.float64)).sum()
    result: Tensor = constants - digamma[0] - digamma[1]
    return result


def _standardised(values: Tensor) -> Tensor:
    return (values - values.mean(dim=0)) / (values.std(dim=0) + 1e-6)
