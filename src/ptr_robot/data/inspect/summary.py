"""What is in a dataset, computed: the values that ``ptr info`` shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ptr_robot.data.ground_truth import EpisodeTruth, read_ground_truth
from ptr_robot.data.inspect.motion import measure_motion
from ptr_robot.data.inspect.oddities import Oddity, find_oddities
from ptr_robot.data.lerobot.contents import BOOKKEEPING_KEYS, DatasetIndex
from ptr_robot.data.lerobot.usability import find_video_problems
from ptr_robot.data.robots import Robot, load_robot, robot_for_type
from ptr_robot.data.robots.slots import SlotMap
from ptr_robot.errors import ConfigError, did_you_mean

HISTOGRAM_BINS = 8


@dataclass(frozen=True)
class LengthSummary:
    """How long episodes are, in frames."""

    minimum: int
    median: float
    maximum: int
    bin_edges: tuple[int, ...]  # one more than counts; the last is included
    counts: tuple[int, ...]


@dataclass(frozen=True)
class FutureSummary:
    """Which chunks have an observed consequence; a chunk starts at every frame."""

    offset_steps: int  # Δ
    num_chunks: int
    num_without_future: int
    num_short_episodes: int  # not longer than Δ, so that none of their chunks has one


@dataclass(frozen=True)
class SlotSummary:
    """How a vector of the robot fills the unified space."""

    feature: str
    size: int  # of the feature
    filled: tuple[tuple[str, int], ...]  # slot, dimensions
    mismatch: str | None = None  # why the robot's map does not fit


@dataclass(frozen=True)
class TruthSummary:
    """What the ground-truth file says, counted in episodes."""

    num_faulty: int
    by_kind: dict[str, int]
    by_operator: dict[str, int]
    num_successes: int
    num_failures: int


@dataclass(frozen=True)
class DatasetSummary:
    """Everything that ``ptr info`` shows."""

    dataset: str
    version: str
    robot_type: str | None
    fps: float
    num_episodes: int
    num_frames: int
    hours: float
    tasks: dict[str, int]  # episodes by instruction
    features: dict[str, tuple[str, tuple[int, ...]]]  # dtype and shape by key
    lengths: LengthSummary
    futures: FutureSummary
    robot: str | None  # None: no built-in map
    slots: tuple[SlotSummary, ...]
    truth: TruthSummary | None
    unusable: dict[int, str]  # why, by episode; such an episode counts nowhere else
    without_pictures: dict[int, str]  # episodes with sound tables whose videos cannot be used, and why
    oddities: tuple[Oddity, ...]


def summarise(
    index: DatasetIndex,
    *,
    offset_steps: int = 16,
    robot: str | None = None,
    state_key: str = "observation.state",
    action_key: str = "action",
) -> DatasetSummary:
    """Compute the summary of an opened dataset; reads every table twice, and of a video only what its container says.

    ``robot`` is a built-in one or a YAML file, by default the one that the dataset's ``robot_type`` names.
    """
    if offset_steps < 1:
        raise ConfigError(f"offset_steps is {offset_steps}; it must be at least 1")
    body = _find_robot(index, robot)
    keys = {} if body is None else {state_key: body.state, action_key: body.action}
    return DatasetSummary(
        dataset=str(index.root),
        version=index.version,
        robot_type=index.robot_type,
        fps=index.fps,
        num_episodes=len(index.episodes),
        num_frames=index.num_frames,
        hours=index.num_frames / index.fps / 3600,
        tasks=dict(Counter(task for record in index.episodes for task in record.tasks).most_common()),
        features={
            key: (feature.dtype, feature.shape)
            for key, feature in index.features.items()
            if key not in BOOKKEEPING_KEYS
        },
        lengths=_summarise_lengths([record.length for record in index.episodes]),
        futures=_summarise_futures([record.length for record in index.episodes], offset_steps),
        robot=None if body is None else body.name,
        slots=tuple(_fill(index, key, slots) for key, slots in keys.items()),
        truth=_summarise_truth(read_ground_truth(index.root)),
        unusable={problem.episode_index: problem.message for problem in index.left_out},
        without_pictures={
            problem.episode_index: problem.message for problem in find_video_problems(index, index.episodes)
        },
        oddities=find_oddities(index, measure_motion(index)) if index.episodes else (),
    )


def _summarise_lengths(lengths: list[int]) -> LengthSummary:
    """Bins have whole edges, so that each holds the same number of lengths."""
    if not lengths:
        return LengthSummary(0, 0.0, 0, (0, 0), (0,))
    low, high = min(lengths), max(lengths)
    width = max(1, -(-(high + 1 - low) // HISTOGRAM_BINS))
    edges = list(range(low, high + 1, width))
    counts, _ = np.histogram(lengths, bins=[*edges, edges[-1] + width])
    return LengthSummary(low, float(np.median(lengths)), high, (*edges, edges[-1] + width - 1), tuple(counts.tolist()))


def _summarise_futures(lengths: list[int], offset_steps: int) -> FutureSummary:
    return FutureSummary(
        offset_steps=offset_steps,
        num_chunks=sum(lengths),
        num_without_future=sum(min(length, offset_steps) for length in lengths),
        num_short_episodes=sum(length <= offset_steps for length in lengths),
    )


def _find_robot(index: DatasetIndex, robot: str | None) -> Robot | None:
    if robot is not None:
        return load_robot(robot)
    try:
        return robot_for_type(index.robot_type, str(index.root))
    except ConfigError:
        return None


def _fill(index: DatasetIndex, key: str, slots: SlotMap) -> SlotSummary:
    filled = tuple((entry.slot, entry.size) for entry in slots.entries)
    if key not in index.vector_keys:
        return SlotSummary(key, 0, filled, f"there is no such vector; {did_you_mean(key, index.vector_keys)}")
    size = index.features[key].size
    mismatch = f"the map has {slots.size} dimensions, the dataset {size}: write a slot map, see docs/add_a_robot.md"
    return SlotSummary(key, size, filled, None if size == slots.size else mismatch)


def _summarise_truth(truths: dict[int, EpisodeTruth] | None) -> TruthSummary | None:
    if truths is None:
        return None
    kinds: Counter[str] = Counter()
    for truth in truths.values():
        kinds.update({fault.kind for fault in truth.faults})
    return TruthSummary(
        num_faulty=sum(truth.is_faulty for truth in truths.values()),
        by_kind=dict(kinds.most_common()),
        by_operator=dict(Counter(t.operator for t in truths.values() if t.operator is not None).most_common()),
        num_successes=sum(truth.is_success is True for truth in truths.values()),
        num_failures=sum(truth.is_success is False for truth in truths.values()),
    )
