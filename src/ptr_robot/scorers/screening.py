"""Screening as an episode scorer: can what was recorded be identified by heads that the episode was held out from?"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ptr_robot.errors import DataError
from ptr_robot.method.scoring.config import SCREENING_VERSION, ScreeningConfig
from ptr_robot.method.scoring.screen import screen
from ptr_robot.method.scoring.transitions import Transitions
from ptr_robot.scorers.base import EpisodeScore, EpisodeScorer, Report
from ptr_robot.scorers.registry import register_scorer
from ptr_robot.scorers.tracks import EpisodeSet, Track

MIN_STRIDE = 4  # frames between two chunks that are looked at: neighbours say the same


@register_scorer
class ScreeningScorer(EpisodeScorer):
    """Cross-fitted identification of consequence, action and instruction, with the weights that it leads to."""

    name = "screening"
    title = "screening"
    version = SCREENING_VERSION

    def __init__(self, config: ScreeningConfig | None = None) -> None:
        self.config = ScreeningConfig() if config is None else config

    def score(self, episodes: EpisodeSet, report: Report | None = None) -> list[EpisodeScore]:
        """Robust z-scores, weights and corrected instructions; an episode no longer than a chunk cannot be judged."""
        names = sorted({track.task for track in episodes.tracks})
        transitions = transitions_of(episodes, names, self.config.max_chunks)
        found = screen(transitions, self.config, report)
        places = {place: row for row, place in enumerate(found.episode_ids.tolist())}
        rows = []
        for place, track in enumerate(episodes.tracks):
            row = places.get(place)
            if row is None:
                rows.append(EpisodeScore(track.episode_index, track.task, float("nan")))
                continue
            corrected = names[int(found.instructions[row])] if found.is_corrected[row] else None
            score, weight = float(found.z_scores[row]), float(found.weights[row])
            rows.append(EpisodeScore(track.episode_index, track.task, score, weight, corrected))
        return rows


def transitions_of(episodes: EpisodeSet, names: list[str], max_chunks: int) -> Transitions:
    """Chunks at equal distances over all episodes, each with the state a chunk later."""
    length = episodes.chunk_length
    num_starts = sum(max(0, track.num_frames - length) for track in episodes.tracks)
    stride = max(MIN_STRIDE, -(-num_starts // max_chunks))
    parts = [_cut(track, length, stride) for track in episodes.tracks]
    counts = [len(part[0]) for part in parts]
    if sum(count > 0 for count in counts) < 2:
        raise DataError(f"screening needs 2 episodes of more than {length} frames; lower the chunk length")
    states, changes, actions = (torch.cat(column) for column in zip(*parts, strict=True))
    tasks = [names.index(track.task) for track in episodes.tracks]
    repeats = torch.tensor(counts)
    return Transitions(
        states,
        changes,
        actions,
        torch.tensor(tasks).repeat_interleave(repeats),
        torch.arange(len(parts)).repeat_interleave(repeats),
    )


def _cut(track: Track, length: int, stride: int) -> tuple[Tensor, Tensor, Tensor]:
    """States, changes and action chunks of one episode."""
    starts = np.arange(0, max(0, track.num_frames - length), stride)
    steps = starts[:, None] + np.arange(length)  # (n, L)
    actions = track.actions[steps].reshape(len(starts), length * track.actions.shape[1])
    states = track.states[starts]
    changes = track.states[starts + length] - states
    return torch.from_numpy(states), torch.from_numpy(changes), torch.from_numpy(actions)
