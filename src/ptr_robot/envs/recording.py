"""Simulates planned episodes in worker processes and writes them, in their order, as one LeRobot dataset."""

from __future__ import annotations

import errno
import functools
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ptr_robot.data.ground_truth import EpisodeTruth, write_ground_truth
from ptr_robot.envs.collection import PlannedEpisode
from ptr_robot.envs.metaworld.demonstration import demonstrate
from ptr_robot.envs.metaworld.environment import (
    ACTION_DIM,
    ENVIRONMENT_STATE_DIM,
    FRAMES_PER_SECOND,
    STATE_DIM,
    MetaWorldEnvironment,
)
from ptr_robot.envs.metaworld.operators import OperatorConfig
from ptr_robot.envs.metaworld.performance import Demonstration
from ptr_robot.envs.metaworld.rendering import CameraConfig
from ptr_robot.envs.metaworld.tasks import instructions
from ptr_robot.envs.workers import worker_processes
from ptr_robot.errors import ConfigError, DataError, require

COLLECTION_FILE = "meta/ptr_collection.json"
_EPISODES_AHEAD = 2  # per worker: how far the simulation may run ahead of the writer


@dataclass(frozen=True)
class RecordingConfig:
    """What is recorded of each episode, and how it is stored."""

    has_images: bool = True
    has_videos: bool = False  # True: AV1 video files; False: lossless images inside the tables
    camera: CameraConfig = field(default_factory=CameraConfig)
    image_key: str = "observation.images.corner2"
    match_lengths: bool = True  # clean and faulty episodes have lengths of the same distribution
    num_workers: int = 2

    def __post_init__(self) -> None:
        if self.num_workers < 1:
            raise ConfigError(f"num_workers={self.num_workers} must be at least 1")
        if not self.image_key.startswith("observation.image"):
            raise ConfigError(f"image_key={self.image_key!r} must begin with observation.image, as LeRobot's keys do")


@dataclass(frozen=True)
class RecordedEpisode:
    """What became of a planned episode."""

    planned: PlannedEpisode
    num_frames: int
    truth: EpisodeTruth


def record(
    output: Path,
    planned: Sequence[PlannedEpisode],
    operators: Mapping[str, OperatorConfig],
    config: RecordingConfig,
    on_episode: Callable[[RecordedEpisode], None] | None = None,
) -> list[RecordedEpisode]:
    """Write a LeRobot v3.0 dataset at ``output`` with its ground truth, whole or not at all."""
    if output.exists():
        raise DataError(f"{output} exists already; choose another folder or remove it")
    partial = output.with_name(f"{_partial_prefix(output)}{os.getpid()}")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(output)
        recorded = _write(partial, planned, operators, config, on_episode)
        partial.replace(output)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and output.exists():
            raise DataError(f"{output} was made by another process meanwhile; choose another folder") from error
        raise DataError(f"{output} could not be written ({error}); nothing was left behind") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return recorded


def _partial_prefix(output: Path) -> str:
    """Of the folder's name while it is written; the process's number follows."""
    return f".{output.name}.partial-"


def _remove_abandoned(output: Path) -> None:
    """Clear what recordings to the same place left whose process was killed."""
    prefix = _partial_prefix(output)
    for path in output.parent.iterdir():
        number = path.name.removeprefix(prefix)
        if path.name.startswith(prefix) and number.isdecimal() and not _is_of_another(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def _is_of_another(process: int) -> bool:
    """Whether another process runs under this number; under this one's own, what is there is from a dead one."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # it is another user's
    return True


def _write(
    root: Path,
    planned: Sequence[PlannedEpisode],
    operators: Mapping[str, OperatorConfig],
    config: RecordingConfig,
    on_episode: Callable[[RecordedEpisode], None] | None,
) -> list[RecordedEpisode]:
    dataset = _create_dataset(root, config)
    recorded = []
    try:
        for episode, demonstration in _simulate(planned, operators, config):
            _add_episode(dataset, demonstration, instructions()[episode.task], config.image_key)
            truth = EpisodeTruth(
                episode.episode_index, demonstration.faults, episode.operator, demonstration.is_success
            )
            recorded.append(RecordedEpisode(episode, demonstration.num_frames, truth))
            if on_episode is not None:
                on_episode(recorded[-1])
    except BaseException:
        # What LeRobot still holds back it would write when it is garbage-collected, into the removed folder.
        dataset.meta.metadata_buffer.clear()
        dataset.finalize()
        raise
    dataset.finalize()
    shutil.rmtree(root / "images", ignore_errors=True)  # where LeRobot gathered single frames; empty now
    write_ground_truth(root, [episode.truth for episode in recorded])
    _write_collection(root, planned, operators, config)
    return recorded


def _write_collection(
    root: Path, planned: Sequence[PlannedEpisode], operators: Mapping[str, OperatorConfig], config: RecordingConfig
) -> None:
    """What a replay needs: each episode's task, operator and seeds, and the operators' settings."""
    collection = {
        "operators": {name: asdict(operators[name]) for name in sorted({episode.operator for episode in planned})},
        "recording": asdict(config),
        "episodes": [asdict(episode) for episode in planned],
    }
    (root / COLLECTION_FILE).write_text(json.dumps(collection, indent=1) + "\n")


def _create_dataset(root: Path, config: RecordingConfig) -> Any:
    os.environ.setdefault("SVT_LOG", "1")  # the AV1 encoder reports every episode's settings otherwise
    lerobot_dataset = require("lerobot.datasets.lerobot_dataset", "lerobot")
    require("datasets", "lerobot").disable_progress_bars()
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": (STATE_DIM,), "names": ["x", "y", "z", "gripper"]},
        "observation.environment_state": {"dtype": "float32", "shape": (ENVIRONMENT_STATE_DIM,), "names": None},
        "action": {"dtype": "float32", "shape": (ACTION_DIM,), "names": ["x", "y", "z", "gripper"]},
    }
    if config.has_images:
        size = config.camera.image_size
        kind = "video" if config.has_videos else "image"
        features[config.image_key] = {"dtype": kind, "shape": (size, size, 3), "names": ["height", "width", "channels"]}
    return lerobot_dataset.LeRobotDataset.create(
        repo_id=f"metaworld/{root.name}",
        fps=FRAMES_PER_SECOND,
        features=features,
        root=root,
        robot_type="metaworld",
        use_videos=config.has_images and config.has_videos,
    )


def _add_episode(dataset: Any, demonstration: Demonstration, instruction: str, image_key: str) -> None:
    for frame in range(demonstration.num_frames):
        values: dict[str, Any] = {
            "observation.state": demonstration.states[frame],
            "observation.environment_state": demonstration.environment_states[frame],
            "action": demonstration.actions[frame],
            "task": instruction,
        }
        if demonstration.images is not None:
            values[image_key] = demonstration.images[frame]
        dataset.add_frame(values)
    dataset.save_episode()


def _simulate(
    planned: Sequence[PlannedEpisode], operators: Mapping[str, OperatorConfig], config: RecordingConfig
) -> Iterator[tuple[PlannedEpisode, Demonstration]]:
    """The demonstrations in their planned order, simulated by ``num_workers`` processes, a few ahead of the writer."""
    if config.num_workers == 1:
        for episode in planned:
            yield episode, _simulate_episode(episode, operators[episode.operator], config)
        return
    pending: deque[tuple[PlannedEpisode, Future[Demonstration]]] = deque()
    waiting = deque(planned)
    with worker_processes(config.num_workers) as executor:
        while waiting or pending:
            while waiting and len(pending) < _EPISODES_AHEAD * config.num_workers:
                episode = waiting.popleft()
                future = executor.submit(_simulate_episode, episode, operators[episode.operator], config)
                pending.append((episode, future))
            episode, future = pending.popleft()
            yield episode, future.result()


def _simulate_episode(episode: PlannedEpisode, operator: OperatorConfig, config: RecordingConfig) -> Demonstration:
    environment = _environment(episode.task, config.camera)
    return demonstrate(environment, operator, episode.seeds, config.has_images, config.match_lengths)


@functools.lru_cache(maxsize=1)
def _environment(task: str, camera: CameraConfig) -> MetaWorldEnvironment:
    """The worker's environment; the plan goes task by task, so one is enough."""
    return MetaWorldEnvironment(task, camera)
