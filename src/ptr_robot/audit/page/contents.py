"""What the page shows, as plain values that become JSON: the dataset, its episodes, and the details of each."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 160  # of a trace or a timeline
LEVELS, GAP = 254, 255  # of a byte that stands for a value
MAX_DIMENSIONS = 8  # traces that are drawn for one episode
MAX_STRETCHES, STRETCHES_A_CHANNEL = 6, 2  # that are named for one episode


@dataclass(frozen=True)
class EpisodeCard:
    """One episode at a glance."""

    episode_index: int
    task: str
    length: int
    score: float
    low: float
    high: float
    weight: float
    verdict: str  # keep, flag or drop
    reason: str
    corrected_instruction: str | None
    evidence: tuple[float, ...]  # in the order of the page's channels; NaN: the channel says nothing
    labels: tuple[str, ...] = ()  # in the order of the page's labels; empty where the episode has none
    duplicate_of: int | None = None
    neighbour: int | None = None  # the most similar episode of its task that is kept
    start: tuple[float, float] = (0.0, 0.0)  # the first state in the plane of the dataset's largest spread
    end: tuple[float, float] = (0.0, 0.0)
    thumbnail: str = ""  # a data URI


@dataclass(frozen=True)
class Stretch:
    """Frames that cost an episode its score."""

    first: int
    last: int
    channel: str


@dataclass(frozen=True)
class Likeness:
    """What followed in a similar situation of a kept episode."""

    frame: int  # where the weak chunk starts
    other_episode: int
    other_frame: int
    offset: int  # frames to the consequence
    pictures: tuple[str, ...] = ()  # data URIs: now, its consequence, the other's now, the other's consequence


@dataclass(frozen=True)
class EpisodeDetail:
    """What is shown when an episode is opened."""

    episode_index: int
    length: int
    timelines: Mapping[str, NDArray[np.float32]]  # by channel: (points,) evidence over the episode
    states: Mapping[str, NDArray[np.float32]]  # by dimension's name: (points,)
    actions: Mapping[str, NDArray[np.float32]]
    stretches: tuple[Stretch, ...] = ()
    frames: tuple[int, ...] = ()
    sprite: str = ""
    frame_size: tuple[int, int] = (0, 0)
    likeness: tuple[Likeness, ...] = ()
    note: str = ""  # why there are no pictures, where there are none


@dataclass(frozen=True)
class Page:
    """Everything but the details, which are made one at a time."""

    title: str
    facts: Mapping[str, str]  # the dataset in a few words
    counts: Mapping[str, int]  # keep, flag, drop, mislabelled
    statements: Sequence[str]  # what the tool expects to have got wrong, warnings
    channels: Mapping[str, str]  # name to words
    episodes: Sequence[EpisodeCard]
    checks: Sequence[Mapping[str, Any]] = ()  # rows of --check
    confusions: Sequence[tuple[str, str, int]] = ()  # given instruction, fitting instruction, episodes
    training: Mapping[str, Any] | None = None
    labels: Sequence[str] = ()  # what else the dataset says of every episode: operator, session, source
    fps: float = 0.0
    weak: float = 0.05  # evidence and scores below it are weak
    total_frames: int = 0  # by which marks know their dataset
    commands: Sequence[tuple[str, str]] = ()  # what to type now: words and command
    extra: Mapping[str, Any] = field(default_factory=dict)


def thin(values: NDArray[Any], points: int = MAX_POINTS) -> NDArray[np.float32]:
    """A trace at evenly spaced places, by the mean of what lies between them; short ones stay as they are."""
    values = np.asarray(values, dtype=np.float32)
    if len(values) <= points:
        return values
    edges = np.linspace(0, len(values), points + 1).astype(int)
    present = np.isfinite(values)
    sums = np.add.reduceat(np.where(present, values, 0.0), edges[:-1])
    counts = np.add.reduceat(present.astype(np.float32), edges[:-1])
    with np.errstate(invalid="ignore", divide="ignore"):
        means: NDArray[np.float32] = (sums / counts).astype(np.float32)
    return means


def most_moving(values: NDArray[Any], at_most: int = MAX_DIMENSIONS) -> list[int]:
    """The dimensions of (frames, D) values that move most, in their own order."""
    if values.shape[1] <= at_most:
        return list(range(values.shape[1]))
    spread = np.nanstd(values.astype(np.float64), axis=0)
    return sorted(np.argsort(-spread, kind="stable")[:at_most].tolist())


def numbers(values: NDArray[np.float32]) -> list[float | None]:
    """For JSON: four digits, None where there is no value."""
    return [None if not np.isfinite(value) else float(f"{value:.4g}") for value in values]


def encode_trace(values: NDArray[np.float32]) -> dict[str, Any]:
    """A trace for drawing: its lowest and highest value, and a byte a point between them; 255 where there is none."""
    present = np.isfinite(values)
    low, high = (float(values[present].min()), float(values[present].max())) if present.any() else (0.0, 0.0)
    levels = np.zeros(len(values)) if high == low else (np.where(present, values, low) - low) / (high - low)
    codes = np.where(present, np.round(levels * LEVELS), GAP).astype(np.uint8)
    return {
        "low": float(f"{low:.4g}"),
        "high": float(f"{high:.4g}"),
        "data": base64.b64encode(codes.tobytes()).decode(),
    }


def weak_stretches(
    evidence: Mapping[str, NDArray[np.float32]],  # by channel: (frames,)
    threshold: float,
    by_channel: Mapping[str, float] | None = None,  # evidence of the whole episode
) -> tuple[Stretch, ...]:
    """Runs of frames below the threshold: those of the channels that cost the episode most, then the longest."""
    found = [
        Stretch(first, last, channel)
        for channel, values in evidence.items()
        for first, last in _longest(np.nan_to_num(values, nan=np.inf) < threshold)
    ]
    cost = by_channel or {}
    return tuple(sorted(found, key=lambda run: (cost.get(run.channel, 1.0), run.first - run.last))[:MAX_STRETCHES])


def _longest(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    return sorted(_runs(flags), key=lambda run: run[0] - run[1])[:STRETCHES_A_CHANNEL]


def _runs(flags: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    for first, end in zip(edges[::2], edges[1::2], strict=True):
        yield int(first), int(end) - 1
