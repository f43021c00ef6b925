"""The episodes of a run scored as ``ptr score`` scores them, before the first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptr_robot.data.lerobot.contents import EpisodeRecord
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.data.segments.source import Source
from ptr_robot.method.ptr.targets import EMATargetEncoder
from ptr_robot.method.scoring.quality import CHANNEL_NAMES, FEWEST_EPISODES, Quality, QualityConfig, Report, assess
from ptr_robot.method.scoring.recordings import Recordings
from ptr_robot.method.scoring.screen import SCREENING_CHANNELS, Screening, ScreeningConfig
from ptr_robot.method.scoring.verdicts import Verdict, decide
from ptr_robot.scheduling import one_thread
from ptr_robot.scorers.looks import LOOKS_A_SECOND, add_looks
from ptr_robot.scorers.recordings import scaled_recordings
from ptr_robot.train.samples import encode_frames

_PICTURES_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class _ScoredSource:
    """What was found of a source's episodes, in their order."""

    records: Sequence[EpisodeRecord]
    instructions: Sequence[str]  # by task number
    quality: Quality
    verdicts: Sequence[Verdict]


def score_sources(
    dataset: SegmentDataset, config: ScreeningConfig, encoder: EMATargetEncoder | None, report: Report | None = None
) -> Screening:
    """Every source by itself: another robot is no measure of this one's episodes.

    A source of too few episodes has nothing to be compared with: they are not in the result.
    """
    parts = [_columns(None, 0, dataset.task_ids)]
    for source, first in zip(dataset.sources, dataset.first_episodes, strict=True):
        if len(source.index.episodes) >= FEWEST_EPISODES:
            scored = _score(source, dataset.config.chunk_length, config, encoder, report)
            parts.append(_columns(scored, first, dataset.task_ids))
    return Screening(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def _score(
    source: Source,
    chunk_length: int,
    config: ScreeningConfig,
    encoder: EMATargetEncoder | None,
    report: Report | None,
) -> _ScoredSource:
    settings = QualityConfig(
        max_false_exclusions=config.max_false_exclusions,
        num_folds=config.num_folds,
        chunk_length=max(2, chunk_length),
        seed=config.seed,
    )
    recordings, instructions = _recordings(source, settings.chunk_length)
    cameras = [key for key in source.cameras if key is not None]
    if encoder is not None and cameras:
        recordings = _looked_at(recordings, source, cameras, encoder, report)
    with one_thread():
        quality = assess(recordings, settings, report)
    return _ScoredSource(source.index.episodes, instructions, quality, decide(quality, instructions, config.keep_share))


def _recordings(source: Source, chunk_length: int) -> tuple[Recordings, tuple[str, ...]]:
    """As they were recorded: the policy's units are those of its robot map, and scores do not depend on one."""
    tables, index = source.tables, source.index
    starts = [tables.first_frame[record.episode_index] for record in index.episodes]
    rows = [slice(first, first + record.length) for first, record in zip(starts, index.episodes, strict=True)]
    return scaled_recordings(
        [np.array(tables.states[part]) for part in rows],
        [np.array(tables.actions[part]) for part in rows],
        [index.tasks[int(tables.task_indices[first])] for first in starts],
        fps=index.fps,
        chunk_length=chunk_length,
    )


def _columns(scored: _ScoredSource | None, first: int, task_ids: Mapping[str, int]) -> tuple[Tensor, ...]:
    """The fields of ``Screening``; ``first`` is the number of the source's episode 0. None: no episodes."""
    if scored is None:
        whole, real = torch.zeros(0, dtype=torch.int64), torch.zeros(0)
        return whole, whole, torch.zeros(0, len(SCREENING_CHANNELS)), real, real, whole, whole.bool()
    given = [task_ids[scored.instructions[task]] for task in scored.quality.given.tolist()]
    found = [_correction(*pair) for pair in zip(scored.verdicts, scored.records, strict=True)]
    weights = [
        one.weight if other is None or one.weight_if_corrected is None else one.weight_if_corrected
        for one, other in zip(scored.verdicts, found, strict=True)
    ]
    instructions = [
        own if other is None else task_ids[scored.instructions[other]] for own, other in zip(given, found, strict=True)
    ]
    return (
        torch.tensor([first + record.episode_index for record in scored.records]),
        torch.tensor([record.length for record in scored.records]),
        _channel_scores(scored.quality),
        torch.tensor([-one.evidence for one in scored.verdicts]),
        torch.tensor(weights),
        torch.tensor(instructions),
        torch.tensor([other is not None for other in found]),
    )


def _correction(verdict: Verdict, record: EpisodeRecord) -> int | None:
    """An episode with several instructions keeps them."""
    return verdict.corrected_instruction if len(record.tasks) == 1 else None


def _channel_scores(quality: Quality) -> Tensor:  # (E, channels)
    """Minus the standardised evidence of the channels that records name; zero where one says nothing."""
    columns = [CHANNEL_NAMES.index(name) for name in SCREENING_CHANNELS]
    return torch.from_numpy(-np.nan_to_num(quality.scores[:, columns])).float()


def _looked_at(
    recordings: Recordings, source: Source, cameras: list[str], encoder: EMATargetEncoder, report: Report | None
) -> Recordings:
    """By the policy's own tower as it starts, on frames that training decodes anyway."""
    stride = max(1, round(source.index.fps / LOOKS_A_SECOND))
    features = []
    for done, record in enumerate(source.index.episodes, start=1):
        features.append(_encoded(record, source, cameras, encoder, stride))
        if report is not None:
            report("screening: looking at pictures", done / len(source.index.episodes))
    return add_looks(recordings, features, stride)


@torch.no_grad()
def _encoded(
    record: EpisodeRecord, source: Source, cameras: list[str], encoder: EMATargetEncoder, stride: int
) -> NDArray[np.float32]:  # (n, K)
    device = next(encoder.parameters()).device
    rows = list(range(0, record.length, stride))
    parts = []
    for first in range(0, len(rows), _PICTURES_AT_ONCE):
        block = rows[first : first + _PICTURES_AT_ONCE]
        views = [torch.from_numpy(source.frames.read(record, key, block)) for key in cameras]
        frames = torch.stack(views, dim=1).to(device)  # (n, V, 3, S, S)
        mask = torch.ones(len(block), len(cameras), dtype=torch.bool, device=device)
        parts.append(encode_frames(encoder, frames, mask).cpu())
    encoded: NDArray[np.float32] = torch.cat(parts).float().numpy()
    return encoded
