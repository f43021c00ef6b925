"""Simulates planned episodes in worker processes and writes them, in their order, as one LeRobot dataset."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ptr_robot.data.ground_truth import EpisodeTruth, write_ground_truth
from ptr_robot.data.lerobot.compat import abandon
from ptr_robot.envs.base import CameraConfig, Environment, EnvironmentType
from ptr_robot.envs.collection import PlannedDemonstration
from ptr_robot.envs.demonstration import demonstrate
from ptr_robot.envs.operators import OperatorConfig
from ptr_robot.envs.performance import Demonstration
from ptr_robot.envs.scripted import Workplace
from ptr_robot.envs.workers import worker_processes
from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.files import workspace_beside
from ptr_robot.scheduling import kept_scheduling

COLLECTION_FILE = "meta/ptr_collection.json"
_EPISODES_AHEAD = 2  # per worker: how far the simulation may run ahead of the writer


@dataclass(frozen=True)
class RecordingConfig:
    """What is recorded of each episode, and how it is stored."""

    cameras: CameraConfig  # as the environment names them
    has_images: bool = True
    has_videos: bool = False  # True: AV1 video files; False: lossless images inside the tables
    image_key: str | None = None  # of the only camera's images; None: as the environment calls them
    match_lengths: bool = True  # clean and faulty episodes have lengths of the same distribution
    num_workers: int = 2

    def __post_init__(self) -> None:
        if self.num_workers < 1:
            raise ConfigError(f"num_workers={self.num_workers} must be at least 1")
        if self.image_key is None:
            return
        if not self.image_key.startswith("observation.image"):
            raise ConfigError(f"image_key={self.image_key!r} must begin with observation.image, as LeRobot's keys do")
        if len(self.cameras.names) != 1:
            raise ConfigError(
                f"image_key={self.image_key!r} names one camera's images, and there are "
                f"{len(self.cameras.names)} cameras; leave it out"
            )

    def image_keys(self, environment_type: EnvironmentType) -> dict[str, str]:
        """The feature key of each camera's images; none where nothing is rendered."""
        if not self.has_images:
            return {}
        return {name: self.image_key or environment_type.cameras[name] for name in self.cameras.names}


@dataclass(frozen=True)
class _Recording:
    """Everything that simulating and writing an episode depends on; sent to the workers whole."""

    environment_type: EnvironmentType
    operators: Mapping[str, OperatorConfig]
    config: RecordingConfig


@dataclass(frozen=True)
class RecordedEpisode:
    """What became of a planned episode."""

    planned: PlannedDemonstration
    num_frames: int
    truth: EpisodeTruth


def record(
    output: Path,
    planned: Sequence[PlannedDemonstration],
    environment_type: EnvironmentType,
    config: RecordingConfig,
    on_episode: Callable[[RecordedEpisode], None] | None = None,
    operators: Mapping[str, OperatorConfig] | None = None,
) -> list[RecordedEpisode]:
    """Write a LeRobot v3.0 dataset at ``output`` with its ground truth, atomically.

    ``operators`` are those that the plan names; by default the environment's.
    """
    environment_type.check_cameras(config.cameras)
    recording = _Recording(environment_type, operators or environment_type.scripted.operators, config)
    if output.exists():
        raise DataError(f"{output} exists already; choose another folder or remove it")
    with workspace_beside(output) as workspace:
        try:
            recorded = _write(workspace / output.name, planned, recording, on_episode)
            (workspace / output.name).replace(output)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST) and output.exists():
                raise DataError(f"{output} was made by another process meanwhile; choose another folder") from error
            raise DataError(f"{output} could not be written ({error}); nothing was left behind") from error
    return recorded


def _write(
    root: Path,
    planned: Sequence[PlannedDemonstration],
    recording: _Recording,
    on_episode: Callable[[RecordedEpisode], None] | None,
) -> list[RecordedEpisode]:
    image_keys = recording.config.image_keys(recording.environment_type)
    dataset = _create_dataset(root, recording, image_keys)
    recorded = []
    try:
        for episode, demonstration in _simulate(planned, recording):
            instruction = recording.environment_type.instruction(episode.task)
            _add_episode(dataset, demonstration, instruction, image_keys)
            truth = EpisodeTruth(
                episode.episode_index, demonstration.faults, episode.operator, demonstration.is_success
            )
            recorded.append(RecordedEpisode(episode, demonstration.num_frames, truth))
            if on_episode is not None:
                on_episode(recorded[-1])
    except BaseException:
        abandon(dataset)
        raise
    dataset.finalize()
    shutil.rmtree(root / "images", ignore_errors=True)  # where LeRobot gathered single frames; empty now
    write_ground_truth(root, [episode.truth for episode in recorded])
    _write_collection(root, planned, recording)
    return recorded


def _write_collection(root: Path, planned: Sequence[PlannedDemonstration], recording: _Recording) -> None:
    """What a replay needs: each episode's task, operator and seeds, and the operators' settings."""
    named = sorted({episode.operator for episode in planned})
    collection = {
        "environment": recording.environment_type.name,
        "operators": {name: asdict(recording.operators[name]) for name in named},
        "recording": asdict(recording.config),
        "episodes": [asdict(episode) for episode in planned],
    }
    (root / COLLECTION_FILE).write_text(json.dumps(collection, indent=1) + "\n")


def _create_dataset(root: Path, recording: _Recording, image_keys: Mapping[str, str]) -> Any:
    os.environ.setdefault("SVT_LOG", "1")  # the AV1 encoder reports every episode's settings otherwise
    lerobot_dataset = require("lerobot.datasets.lerobot_dataset", "lerobot")
    require("datasets", "lerobot").disable_progress_bars()
    kind, config = recording.environment_type, recording.config
    vectors = {**kind.states, "action": kind.action}
    features: dict[str, Any] = {
        key: {"dtype": "float32", "shape": (vector.size,), "names": vector.names and list(vector.names)}
        for key, vector in vectors.items()
    }
    size = config.cameras.image_size
    for key in image_keys.values():
        stored = "video" if config.has_videos else "image"
        features[key] = {"dtype": stored, "shape": (size, size, 3), "names": ["height", "width", "channels"]}
    return lerobot_dataset.LeRobotDataset.create(
        repo_id=f"{kind.name}/{root.name}",
        fps=kind.frames_per_second,
        features=features,
        root=root,
        robot_type=kind.name,
        use_videos=bool(image_keys) and config.has_videos,
    )


def _add_episode(dataset: Any, demonstration: Demonstration, instruction: str, image_keys: Mapping[str, str]) -> None:
    for frame in range(demonstration.num_frames):
        values: dict[str, Any] = {key: states[frame] for key, states in demonstration.states.items()}
        values |= {"action": demonstration.actions[frame], "task": instruction}
        values |= {image_keys[camera]: images[frame] for camera, images in demonstration.images.items()}
        dataset.add_frame(values)
    with kept_scheduling():
        dataset.save_episode()


def _simulate(
    planned: Sequence[PlannedDemonstration], recording: _Recording
) -> Iterator[tuple[PlannedDemonstration, Demonstration]]:
    """The demonstrations in their planned order, simulated by ``num_workers`` processes, a few ahead of the writer."""
    num_workers = recording.config.num_workers
    if num_workers == 1:
        try:
            for episode in planned:
                yield episode, _simulate_episode(episode, recording)
        finally:
            _dismiss_environment()
        return
    pending: deque[tuple[PlannedDemonstration, Future[Demonstration]]] = deque()
    waiting = deque(planned)
    with worker_processes(num_workers) as executor:
        while waiting or pending:
            while waiting and len(pending) < _EPISODES_AHEAD * num_workers:
                episode = waiting.popleft()
                pending.append((episode, executor.submit(_simulate_episode, episode, recording)))
            episode, future = pending.popleft()
            yield episode, future.result()


def _simulate_episode(episode: PlannedDemonstration, recording: _Recording) -> Demonstration:
    config = recording.config
    environment = _environment(recording.environment_type, episode.task, config.cameras)
    workplace = Workplace.of(recording.environment_type, environment)
    cameras = config.cameras.names if config.has_images else ()
    return demonstrate(workplace, recording.operators[episode.operator], episode.seeds, cameras, config.match_lengths)


_made: dict[tuple[str, str, CameraConfig], Environment] = {}


def _environment(environment_type: EnvironmentType, task: str, cameras: CameraConfig) -> Environment:
    """The process's environment; the plan goes task by task, so one is enough, and some simulators allow no second."""
    key = (environment_type.name, task, cameras)
    if key not in _made:
        _dismiss_environment()
        _made[key] = environment_type.make(task, cameras)
    return _made[key]


def _dismiss_environment() -> None:
    for key in list(_made):
        _made.pop(key).close()
