"""One dataset of a mixture, opened: its robot, its normalisers, its cameras and its frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ptr_robot.data.cache.frames import FrameCache
from ptr_robot.data.cache.tables import TableCache, open_tables
from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.lerobot.feature_statistics import weighted_statistics
from ptr_robot.data.lerobot.index import DatasetIndex, EpisodeProblem, open_index
from ptr_robot.data.robots import Robot, load_robot, robot_for_type
from ptr_robot.data.robots.normalisers import Normaliser, VectorStatistics, make_normaliser
from ptr_robot.data.robots.slots import SlotMap
from ptr_robot.errors import ConfigError, DataError, did_you_mean
from ptr_robot.files import default_cache_dir

NO_VIEW = "none"


@dataclass(frozen=True)
class UnifiedMap:
    """From a robot's vectors to the unified space and back: normalised first, then put into slots."""

    slots: SlotMap
    normaliser: Normaliser

    def to_unified(self, values: NDArray[np.floating]) -> NDArray[np.float32]:
        """Robot units (..., D) to the policy's (..., 200)."""
        return self.slots.to_unified(self.normaliser.normalise(values))

    def from_unified(self, unified: NDArray[np.floating]) -> NDArray[np.float32]:
        """The policy's units (..., 200) to the robot's (..., D): the inverse, for rollouts."""
        return self.normaliser.denormalise(self.slots.from_unified(unified))


@dataclass(frozen=True)
class Source:
    """A dataset that is ready to give segments."""

    config: SourceConfig
    index: DatasetIndex
    robot: Robot
    state_map: UnifiedMap
    action_map: UnifiedMap
    tables: TableCache
    cameras: tuple[str | None, ...]  # V: a feature key, or None where this source lacks the view
    frames: FrameCache

    def restricted(
        self,
        episodes: Collection[int],
        episode_weights: NDArray[np.float64] | None = None,  # (episodes,) by index; None: all alike
    ) -> Source:
        """The same without other episodes, and with the statistics of those that are left."""
        chosen = tuple(episode for episode in self.index.episodes if episode.episode_index in episodes)
        config = dataclasses.replace(self.config, episodes=[episode.episode_index for episode in chosen])
        index = dataclasses.replace(self.index, episodes=chosen, left_out=())
        return _with_tables(config, index, self.robot, self.cameras, self.frames, episode_weights)


def open_source(
    config: SourceConfig,
    data: DataConfig,
    episode_weights: NDArray[np.float64] | None = None,  # (episodes,) by index; None: all alike
) -> Source:
    """Open and check one dataset; every complaint names it."""
    index = open_index(
        config.repo_id,
        root=config.root,
        revision=config.revision,
        episodes=config.episodes,
        skip_bad_episodes=data.skip_bad_episodes,
        camera_keys=config.image_keys if data.image_size else (),
        vector_keys=(config.state_key, config.action_key),
    )
    index = _without_short_episodes(index, data)
    robot = robot_for_type(index.robot_type, config.repo_id) if config.robot is None else load_robot(config.robot)
    for key, slots in ((config.state_key, robot.state), (config.action_key, robot.action)):
        if index.feature(key).is_camera:
            raise ConfigError(f"{index.root}: {key!r} is a camera, not a vector; {_hint(index)}")
        slots.check_size(f"{index.root}: {key!r} (robot {robot.name})", index.feature(key).size)
    cache_dir = default_cache_dir() if data.cache_dir is None else Path(data.cache_dir).expanduser()
    cameras = _cameras(config, index) if data.image_size else ()
    frames = FrameCache(index, cache_dir, data.image_size, data.resize)
    return _with_tables(config, index, robot, cameras, frames, episode_weights)


def _with_tables(
    config: SourceConfig,
    index: DatasetIndex,
    robot: Robot,
    cameras: tuple[str | None, ...],
    frames: FrameCache,
    episode_weights: NDArray[np.float64] | None,
) -> Source:
    tables = open_tables(index, config.state_key, config.action_key, frames.folder)
    statistics = {
        part: tables.statistics(part) if episode_weights is None else weighted(tables, part, index, episode_weights)
        for part in ("states", "actions")
    }
    return Source(
        config=config,
        index=index,
        robot=robot,
        state_map=_unified(robot.state, statistics["states"], config.normaliser),
        action_map=_unified(robot.action, statistics["actions"], config.normaliser),
        tables=tables,
        cameras=cameras,
        frames=frames,
    )


def _unified(slots: SlotMap, statistics: VectorStatistics, default: str) -> UnifiedMap:
    return UnifiedMap(slots, make_normaliser(statistics, slots.normalisers(default)))


def weighted(
    tables: TableCache, part: str, index: DatasetIndex, episode_weights: NDArray[np.float64]
) -> VectorStatistics:
    """Statistics of what is drawn where episodes are drawn by weight; the plain ones where all weigh the same."""
    weights = np.array([episode_weights[episode.episode_index] for episode in index.episodes])
    if (weights == weights[0]).all():
        return tables.statistics(part)
    frames = tables.states if part == "states" else tables.actions
    return weighted_statistics(frames, np.repeat(weights, [episode.length for episode in index.episodes]))


def _hint(index: DatasetIndex) -> str:
    return f"its vectors are: {', '.join(index.vector_keys)}"


def _cameras(config: SourceConfig, index: DatasetIndex) -> tuple[str | None, ...]:
    if config.image_keys is None:
        return index.camera_keys
    for key in config.image_keys:
        if key != NO_VIEW and key not in index.camera_keys:
            hint = did_you_mean(key, [*index.camera_keys, NO_VIEW])
            raise ConfigError(f"{index.root}: there is no camera {key!r}; {hint}")
    return tuple(None if key == NO_VIEW else key for key in config.image_keys)


def _without_short_episodes(index: DatasetIndex, data: DataConfig) -> DatasetIndex:
    """An episode shorter than a chunk has no whole action and no future: nothing can be learnt from it."""
    short = [episode for episode in index.episodes if episode.length < data.chunk_length]
    if not short:
        return index
    problems = tuple(
        EpisodeProblem(
            episode.episode_index,
            f"{episode.table}: episode {episode.episode_index} has {episode.length} frames, "
            f"fewer than a chunk of {data.chunk_length}",
        )
        for episode in short
    )
    if not data.skip_bad_episodes:
        raise DataError(f"{problems[0]}; lower chunk_length or leave it out with --dataset.skip_bad_episodes=true")
    rest = tuple(episode for episode in index.episodes if episode.length >= data.chunk_length)
    if not rest:
        raise DataError(f"{index.root}: no episode is as long as a chunk of {data.chunk_length}")
    return dataclasses.replace(index, episodes=rest, left_out=(*index.left_out, *problems))
