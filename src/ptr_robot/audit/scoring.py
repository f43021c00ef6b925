"""``ptr score`` as a function: a dataset in, the scores of its episodes and frames out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptr_robot import __version__
from ptr_robot.audit.score_files import FrameScores, Scores
from ptr_robot.data.lerobot.contents import DatasetIndex
from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.files import default_cache_dir
from ptr_robot.method.scoring.check import CheckResult, check
from ptr_robot.method.scoring.null_distribution import tail_probability
from ptr_robot.method.scoring.quality import CHANNEL_NAMES, CHANNELS, QUALITY_VERSION, Quality, QualityConfig, assess
from ptr_robot.method.scoring.recordings import Recordings
from ptr_robot.method.scoring.verdicts import DROP, Verdict, decide, expected_mistakes
from ptr_robot.scheduling import one_thread
from ptr_robot.scorers.episode_rows import EpisodeRow
from ptr_robot.scorers.looks import NONE, Tower, open_tower, with_looks
from ptr_robot.scorers.recordings import ReadDataset, read_recordings, state_keys_of

Report = Callable[[str, float], None]


@dataclass(frozen=True)
class ScoreSettings:
    """What decides the scores of a dataset."""

    # Share of good episodes that may be dropped by mistake.
    max_false_exclusions: float = 0.05
    # The vectors that are the state; by default observation.state and observation.environment_state.
    state_keys: list[str] = field(default_factory=list)
    # The vector that holds the actions.
    action_key: str = "action"
    # Frames of a chunk, over which consequences are looked at.
    chunk_length: int = 16
    # Draws of folds and random features that are averaged.
    num_seeds: int = 3
    # Folds of episodes: what an episode does is predicted by models that never saw it.
    num_folds: int = 5
    # What looks at pictures: a timm name or folder, a trained policy, thumbnails, none; auto: a pretrained tower.
    vision: str = "auto"
    # The cameras that are looked at; by default all.
    image_keys: list[str] = field(default_factory=list)
    # Where what pictures look like is kept; by default ~/.cache/ptr_robot.
    cache_dir: str | None = None
    # Inject faults of known kinds into copies of the episodes, and report how well each would be found.
    check: bool = False
    # The first of the draws.
    seed: int = 0

    @property
    def quality(self) -> QualityConfig:
        """What the method is told."""
        names = {entry.name for entry in dataclasses.fields(QualityConfig)}
        return QualityConfig(**{name: getattr(self, name) for name in names})


def score_dataset(index: DatasetIndex, settings: ScoreSettings, report: Report | None = None) -> Scores:
    """Read, score, decide and, where it is asked for, check."""
    config = settings.quality
    if report is not None:
        report("reading", 0.0)
    data = read_recordings(index, state_keys_of(index, settings.state_keys), settings.action_key, config.chunk_length)
    recordings, said = _looked_at(index, data, settings, report)
    with one_thread():
        quality = assess(recordings, config, report)
        verdicts = decide(quality, data.instructions)
        checks = _checked(quality, recordings, config, report) if settings.check else []
    return Scores(
        rows=_rows(data, quality, verdicts) | _unusable(index),
        frames=_frames(data, quality, verdicts),
        channels={channel.name: channel.reason for channel in CHANNELS},
        statements=[*statements(quality, verdicts, checks), *said],
        checks=[dataclasses.asdict(result) for result in checks],
        settings={**dataclasses.asdict(settings), "version": __version__, "quality_version": QUALITY_VERSION},
        dataset={
            "root": str(index.root),
            "total_episodes": index.total_episodes,
            "total_frames": index.total_frames,
            "fps": index.fps,
        },
    )


def _checked(
    quality: Quality, recordings: Recordings, config: QualityConfig, report: Report | None
) -> list[CheckResult]:
    """The check, and where there are pictures, what it finds without them: that is what they add."""
    results = check(quality, config.seed, report)
    if all(episode.looks is None for episode in recordings.episodes):
        return results
    stage = None if report is None else lambda _, share: report("checking without pictures", share)
    blind = check(assess(recordings.without_looks(), config, stage), config.seed)
    known = {result.kind: result.auroc for result in blind}
    return [dataclasses.replace(result, auroc_without_pictures=known.get(result.kind)) for result in results]


def _looked_at(
    index: DatasetIndex, data: ReadDataset, settings: ScoreSettings, report: Report | None
) -> tuple[Recordings, list[str]]:
    """The recordings with their pictures where they are wanted, and what is to be said about it."""
    eyes = open_eyes(index, settings)
    if eyes is None:
        unseen = ["Pictures were not looked at; --vision=auto does."] if index.camera_keys else []
        return data.recordings, unseen
    looked = with_looks(data.recordings, data.records, index, eyes.tower, eyes.cameras, eyes.cache_dir, report)
    return looked, [eyes.said]


@dataclass(frozen=True)
class Eyes:
    """What looks at which pictures, and where it keeps what it saw."""

    tower: Tower
    cameras: tuple[str, ...]
    cache_dir: Path
    said: str  # what is to be said about it


def open_eyes(index: DatasetIndex, settings: ScoreSettings) -> Eyes | None:
    """None where there are no pictures, or none are wanted."""
    cameras = tuple(settings.image_keys or index.camera_keys)
    for key in cameras:
        if key not in index.camera_keys:
            raise ConfigError(f"{index.root}: there is no camera {key!r}; {did_you_mean(key, index.camera_keys)}")
    if settings.vision == NONE or not cameras:
        return None
    tower, said = open_tower(settings.vision)
    assert tower is not None
    cache_dir = Path(settings.cache_dir).expanduser() if settings.cache_dir else default_cache_dir()
    return Eyes(tower, cameras, cache_dir, said or f"Pictures were looked at by {tower.name}.")


def _rows(data: ReadDataset, quality: Quality, verdicts: Sequence[Verdict]) -> dict[int, EpisodeRow]:
    degrees = quality.combination.degrees
    rows = {}
    for record, verdict, scores in zip(data.records, verdicts, quality.scores, strict=True):
        tails = tail_probability(scores, degrees)
        corrected = verdict.corrected_instruction
        rows[record.episode_index] = EpisodeRow(
            episode_index=record.episode_index,
            score=verdict.score,
            low=verdict.score_low,
            high=verdict.score_high,
            weight=verdict.weight,
            verdict=verdict.verdict,
            reason=verdict.reason,
            corrected_instruction=None if corrected is None else data.instructions[corrected],
            weight_if_corrected=verdict.weight_if_corrected,
            evidence={
                name: float(tail)
                for name, tail, score in zip(CHANNEL_NAMES, tails, scores, strict=True)
                if np.isfinite(score)
            },
        )
    return rows


def _unusable(index: DatasetIndex) -> dict[int, EpisodeRow]:
    """Episodes that cannot be read are out, and say why."""
    return {
        problem.episode_index: EpisodeRow(
            problem.episode_index, float("nan"), float("nan"), float("nan"), 0.0, DROP, f"cannot be read: {problem}"
        )
        for problem in index.left_out
    }


def _frames(data: ReadDataset, quality: Quality, verdicts: Sequence[Verdict]) -> FrameScores:
    names = list(dict.fromkeys(name for frames in quality.frames for name in frames))
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    index, episodes, places, weights = [], [], [], []
    for record, verdict, frames in zip(data.records, verdicts, quality.frames, strict=True):
        numbers = np.arange(record.length)
        index.append(record.first_index + numbers)
        episodes.append(np.full(record.length, record.episode_index))
        places.append(numbers)
        weights.append(np.full(record.length, verdict.weight, dtype=np.float32))
        for name in names:
            parts[name].append(frames.get(name, np.full(record.length, np.nan)).astype(np.float32))
    return FrameScores(
        index=np.concatenate(index),
        episode_index=np.concatenate(episodes),
        frame_index=np.concatenate(places),
        weight=np.concatenate(weights),
        evidence={name: np.concatenate(values) for name, values in parts.items()},
    )


def statements(quality: Quality, verdicts: Sequence[Verdict], checks: Sequence[CheckResult]) -> list[str]:
    """What the tool expects to have got wrong, and what it cannot see here."""
    mistakes = expected_mistakes(quality, verdicts)
    silent = [name for name, column in zip(CHANNEL_NAMES, quality.scores.T, strict=True) if np.isnan(column).all()]
    dropped = "No episode is dropped"
    if mistakes.num_dropped:
        dropped = (
            f"Of {mistakes.num_dropped} dropped episodes about {mistakes.good_dropped:.1f} are expected to be good ones"
        )
    missed_by_all = f"about {mistakes.faulty_kept:.1f} faulty ones are expected among those that are kept or flagged"
    said = [f"{dropped}; {missed_by_all}."]
    if silent:
        said.append(f"These channels know nothing in this dataset and say nothing: {', '.join(silent)}.")
    said += _what_pictures_add(checks)
    missed = [result.title for result in checks if result.auroc < 0.8]
    if missed:
        said.append(f"Injected faults that would mostly be missed here: {', '.join(missed)}.")
    undropped = [result.title for result in checks if result.auroc >= 0.8 and result.recall < 0.5]
    if undropped:
        said.append(f"Injected faults that would rank low and mostly not be dropped: {', '.join(undropped)}.")
    return said


def _what_pictures_add(checks: Sequence[CheckResult]) -> list[str]:
    gains = {
        one.title: one.auroc - one.auroc_without_pictures for one in checks if one.auroc_without_pictures is not None
    }
    if not gains:
        return []
    most = max(gains, key=lambda title: abs(gains[title]))
    mean = sum(gains.values()) / len(gains)
    change = f"{mean:+.2f} in the mean, most for {most} ({gains[most]:+.2f})"
    return [f"Pictures change the AUROC of injected faults by {change}."]


def counts(rows: Mapping[int, EpisodeRow]) -> dict[str, int]:
    """Kept in full, weighing less, and out."""
    weights = [row.weight for row in rows.values()]
    return {
        "in full": sum(weight >= 1.0 for weight in weights),
        "weigh less": sum(0.0 < weight < 1.0 for weight in weights),
        "out": sum(weight == 0.0 for weight in weights),
    }


def check_settings(settings: ScoreSettings) -> None:
    """Refuse what cannot be meant before anything is read."""
    _: Any = settings.quality
    if len(set(settings.state_keys)) < len(settings.state_keys):
        raise ConfigError(f"state_keys names a feature twice: {', '.join(settings.state_keys)}")
