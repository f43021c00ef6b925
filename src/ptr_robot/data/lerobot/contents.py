"""What a LeRobot dataset holds, as typed values that are the same for every version of the format."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ptr_robot.errors import ConfigError, DataError, did_you_mean

BOOKKEEPING_KEYS = ("timestamp", "frame_index", "episode_index", "index", "task_index")


@dataclass(frozen=True)
class Feature:
    """One column or camera of a dataset, as ``meta/info.json`` describes it."""

    key: str
    dtype: str  # "video", "image", or that of a table column
    shape: tuple[int, ...]
    names: tuple[str, ...] = ()  # one per dimension where the dataset names them, else empty

    @property
    def is_camera(self) -> bool:
        """Whether the feature is a picture, stored as video or in the table."""
        return self.dtype in ("video", "image")

    @property
    def size(self) -> int:
        """The number of values in one frame."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class VideoSpan:
    """Where an episode lies in a video file; v2.1 has a file an episode, v3.0 joins several."""

    path: Path
    from_timestamp: float = 0.0  # seconds
    to_timestamp: float | None = None  # seconds; None: the end of the file


@dataclass(frozen=True)
class EpisodeRecord:
    """One episode: its rows in a table file and its spans in the video files."""

    episode_index: int
    length: int  # frames, as the metadata says
    tasks: tuple[str, ...]
    first_index: int  # global frame index of its first frame
    table: Path
    first_row: int  # of the episode in ``table``
    videos: Mapping[str, VideoSpan] = field(default_factory=dict)  # by feature key


@dataclass(frozen=True)
class EpisodeProblem:
    """An episode that cannot be used, and the line that says why."""

    episode_index: int
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class DatasetIndex:
    """A LeRobot dataset of any supported version, opened but not decoded."""

    root: Path
    version: str  # "v2.1" or "v3.0"
    fps: float
    robot_type: str | None
    features: Mapping[str, Feature]
    tasks: Mapping[int, str]  # by task_index
    episodes: tuple[EpisodeRecord, ...]  # the usable ones that were asked for
    left_out: tuple[EpisodeProblem, ...] = ()
    total_frames: int = 0  # of the whole dataset, whatever was left out
    total_episodes: int = 0  # one more than the highest episode index of the whole dataset

    @property
    def num_frames(self) -> int:
        """Frames of the usable episodes."""
        return sum(episode.length for episode in self.episodes)

    @property
    def camera_keys(self) -> tuple[str, ...]:
        """The cameras, in the dataset's own order."""
        return tuple(key for key, feature in self.features.items() if feature.is_camera)

    @property
    def vector_keys(self) -> tuple[str, ...]:
        """The numeric columns besides the bookkeeping, in the dataset's own order."""
        numeric = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
        return tuple(k for k, f in self.features.items() if f.dtype in numeric and k not in BOOKKEEPING_KEYS)

    def feature(self, key: str) -> Feature:
        """The feature called ``key``; a misspelt one gets a hint."""
        if key not in self.features:
            raise ConfigError(f"{self.root}: there is no feature {key!r}; {did_you_mean(key, self.features)}")
        return self.features[key]

    def episode(self, episode_index: int) -> EpisodeRecord:
        """The episode of that number, or a line that says why it is not here."""
        for record in self.episodes:
            if record.episode_index == episode_index:
                return record
        for problem in self.left_out:
            if problem.episode_index == episode_index:
                raise DataError(problem.message)
        raise DataError(f"{self.root}: there is no episode {episode_index}")
