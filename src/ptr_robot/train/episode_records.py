"""What the run thought of each episode: the mean score and weight of its chunks, added up over training."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.errors import require
from ptr_robot.files import atomic_file
from ptr_robot.method.distributed import sum_over_ranks
from ptr_robot.method.types import PTROutput, Samples
from ptr_robot.train.methods.base import EpisodeFinding, Preparation

EPISODE_SCORES_FILE = "episode_scores.parquet"


class EpisodeLedger:
    """Sums for every episode of every source, from the end of the weights' warm-up on; each rank keeps its own."""

    def __init__(
        self, dataset: SegmentDataset, device: torch.device | str = "cpu", preparation: Preparation | None = None
    ) -> None:
        self._places: list[tuple[int, int, str, int]] = []  # row of the sums, source id, repo id, episode index
        total = 0
        for source_id, source in enumerate(dataset.sources):
            for episode in source.index.episodes:
                number = episode.episode_index
                self._places.append((total + number, source_id, source.config.repo_id, number))
            total += source.index.total_episodes
        self._preparation = preparation or Preparation()
        # Columns: samples, scored samples, Σ score, Σ weight.
        self.sums = torch.zeros(total, 4, dtype=torch.float64, device=device)

    @torch.no_grad()
    def add(self, output: PTROutput, samples: Samples) -> None:
        """Count the chunks of one micro-batch; padding has no score and weighs nothing."""
        assert samples.episode_ids is not None
        assert samples.chunk_is_pad is not None
        columns = [~samples.chunk_is_pad, output.is_scored, output.scores, output.weights]
        rows = torch.stack([column.double() for column in columns], dim=1)  # (N, 4)
        self.sums.index_add_(0, samples.episode_ids, rows)

    def totals(self) -> Tensor:  # (episodes, 4)
        """The sums over all ranks; every rank must ask at the same time."""
        return sum_over_ranks(self.sums)

    def restore(self, totals: Tensor, *, is_main: bool) -> None:
        """Take the totals back on one rank alone: they are added up over ranks again at the next save."""
        self.sums = totals.to(self.sums) if is_main else torch.zeros_like(self.sums)

    def write(self, totals: Tensor, file: Path) -> None:
        """One row an episode, atomically; an episode that never came has empty means.

        What the method found before training holds for the whole run; the samples are those that training saw.
        """
        pyarrow, parquet = require("pyarrow", "lerobot"), require("pyarrow.parquet", "lerobot")
        rows = [row for row, *_ in self._places]
        samples, scored, scores, weights = totals[rows].cpu().unbind(1)
        mean_scores, mean_weights = _means(scores, scored), _means(weights, samples)
        findings, instructions = self._preparation.findings, self._preparation.instructions
        if findings:
            known = [findings.get(row, EpisodeFinding(num_chunks=0, score=None, weight=1.0)) for row in rows]
            scored = torch.tensor([found.num_chunks for found in known])
            mean_scores = [found.score for found in known]
            means = zip(mean_weights, known, strict=True)
            mean_weights = [found.weight if mean is None else mean for mean, found in means]
        table = pyarrow.table(
            {
                "source_id": [source_id for _, source_id, _, _ in self._places],
                "source": [name for _, _, name, _ in self._places],
                "episode_index": [number for *_, number in self._places],
                "num_samples": samples.long().numpy(),
                "num_scored": scored.long().numpy(),
                "mean_score": pyarrow.array(mean_scores, pyarrow.float64()),
                "mean_weight": pyarrow.array(mean_weights, pyarrow.float64()),
                "corrected_instruction": pyarrow.array([instructions.get(row) for row in rows], pyarrow.string()),
            }
        )
        with atomic_file(file) as target:
            parquet.write_table(table, target)


def _means(sums: Tensor, counts: Tensor) -> list[float | None]:
    pairs = zip(sums.tolist(), counts.tolist(), strict=True)
    return [total / count if count else None for total, count in pairs]
