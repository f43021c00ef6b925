"""The data of a study as jobs: demonstrations, their corrupted copies, and what rules think of their episodes."""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.corruptions import corrupt_dataset
from ptr_robot.envs.base import CameraConfig, EnvironmentType
from ptr_robot.envs.collection import COLLECTION_VERSION, plan_episodes, resolve_mixture
from ptr_robot.envs.recording import RecordingConfig, record
from ptr_robot.envs.registry import DEFAULT as DEFAULT_ENVIRONMENT
from ptr_robot.envs.registry import environment_type
from ptr_robot.errors import DataError
from ptr_robot.files import atomic_file, fingerprint
from ptr_robot.scorers import get_scorer
from ptr_robot.scorers.tracks import read_episode_set
from ptr_robot.study.cells.judgement import Suspicion
from ptr_robot.study.engine.jobs import Job
from ptr_robot.study.engine.stages import Stage
from ptr_robot.study.spec.definition import CorruptionSettings, Demonstrations
from ptr_robot.text_files import read_json

SUSPICIONS_FILE = "suspicions.json"
CACHE_FOLDER = "cache"


@dataclass(frozen=True)
class StageJob(Job):
    """A job whose output is a folder that settings alone decide; named after them, so that settings share it."""

    root: Path

    folder: ClassVar[str]

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything that the output depends on, beside the jobs before it."""

    @abstractmethod
    def make(self, output: Path) -> None:
        """Do the work."""

    @cached_property
    def stage(self) -> Stage:
        """The folder, and whether it is whole."""
        before = tuple(job.stage for job in self.after if isinstance(job, StageJob))
        name = fingerprint(self.settings, [stage.identity for stage in before])[:12]
        return Stage(self.root, f"{self.folder}/{name}", self.settings, before)

    @property
    def key(self) -> str:
        """Its folder."""
        return self.stage.name

    @property
    def output(self) -> Path:
        """Where the result lies."""
        return self.stage.output

    def is_done(self) -> bool:
        """Whether the folder is whole."""
        return self.stage.is_complete

    def run(self) -> None:
        """Make the folder."""
        self.stage.run(lambda: self.make(self.output))

    def fail(self, reason: str) -> None:
        """Nothing: the cells that need the folder note the reason."""


@dataclass(frozen=True)
class CollectJob(StageJob):
    """Demonstrations of one seed."""

    tasks: tuple[str, ...]
    demonstrations: Demonstrations
    seed: int
    env: str = DEFAULT_ENVIRONMENT
    num_recorders: int = 1  # processes; the dataset is the same for any number

    folder: ClassVar[str] = "demonstrations"

    @property
    def environment_type(self) -> EnvironmentType:
        """Where they are recorded."""
        return environment_type(self.env)

    @property
    def title(self) -> str:
        """For the terminal."""
        operators = self.environment_type.scripted.operators
        faulty = [name for name in self.demonstrations.operators if operators[name].is_faulty]
        return f"demonstrations, {'+'.join(faulty) or 'clean'}, seed {self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """What is recorded."""
        # Version 0.1 knew one environment and did not name it; its folders are found again.
        named = {} if self.env == DEFAULT_ENVIRONMENT else {"env": self.env}
        version = {"collection": COLLECTION_VERSION}
        return {"tasks": self.tasks, "seed": self.seed, **version, **named, **asdict(self.demonstrations)}

    def make(self, output: Path) -> None:
        """Simulate and record them."""
        wanted, kind = self.demonstrations, self.environment_type
        operators = kind.scripted.operators
        mixture = resolve_mixture(wanted.operators, operators, wanted.fault_fraction)
        planned = plan_episodes(self.tasks, wanted.episodes, mixture, self.seed, operators)
        recording = RecordingConfig(
            cameras=CameraConfig(kind.default_cameras, wanted.camera_size),
            has_images=wanted.images,
            match_lengths=wanted.match_lengths,
            num_workers=self.num_recorders,
        )
        record(output, planned, kind, recording)


@dataclass(frozen=True)
class CorruptJob(StageJob):
    """A corrupted copy of demonstrations."""

    source: CollectJob
    corruption: CorruptionSettings

    folder: ClassVar[str] = "corrupted"

    @property
    def environment_type(self) -> EnvironmentType:
        """Where they were recorded."""
        return self.source.environment_type

    @property
    def after(self) -> tuple[Job, ...]:
        """What is copied."""
        return (self.source,)

    @property
    def title(self) -> str:
        """For the terminal."""
        return f"corruption {self.corruption.kind}, seed {self.source.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """What is done to them."""
        return {**asdict(self.corruption), "seed": self.source.seed}

    def make(self, output: Path) -> None:
        """Write the copy."""
        corrupt_dataset(self.source.output, output, self.corruption.corruptions(), seed=self.source.seed)


DatasetJob = CollectJob | CorruptJob


@dataclass(frozen=True)
class RuleJob(StageJob):
    """What one rule thinks of every episode of a dataset."""

    dataset: DatasetJob
    rule: str
    chunk_length: int
    seed: int
    robot: str | None = None

    folder: ClassVar[str] = "rules"

    @property
    def after(self) -> tuple[Job, ...]:
        """The dataset."""
        return (self.dataset,)

    @property
    def title(self) -> str:
        """For the terminal."""
        return f"rule {self.rule} on {self.dataset.title}"

    @property
    def settings(self) -> dict[str, Any]:
        """What the scores depend on beside the dataset."""
        robot = robot_identity(self.dataset.environment_type, self.robot)
        settings = {"rule": self.rule, "chunk_length": self.chunk_length, "seed": self.seed, "robot": robot}
        version = get_scorer(self.rule).version
        return settings if version == "1" else {**settings, "version": version}

    def make(self, output: Path) -> None:
        """Score the episodes."""
        source = SourceConfig(**source_fields(self.dataset.output, self.dataset.environment_type, self.robot))
        cache = str(self.root / CACHE_FOLDER)
        data = DataConfig(chunk_length=self.chunk_length, image_size=0, cache_dir=cache)
        scores = get_scorer(self.rule).score(read_episode_set(source, data, self.seed))
        rows = [Suspicion(row.episode_index, row.task, -row.score) for row in scores]
        with atomic_file(output / SUSPICIONS_FILE) as file:
            file.write((json.dumps([asdict(row) for row in rows]) + "\n").encode())

    def suspicions(self) -> list[Suspicion]:
        """What it found."""
        path = self.output / SUSPICIONS_FILE
        try:
            return [Suspicion(**row) for row in read_json(path, "remove its folder and run again")]
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{path}: not a file of suspicions ({error}); remove its folder and run again") from error


def source_fields(dataset: Path, kind: EnvironmentType, robot: str | None) -> dict[str, Any]:
    """How a study reads a dataset: with everything that the simulator knows as the state.

    ``robot`` is one of the environment's own maps, one of ptr-robot's, or a file.
    """
    return {"repo_id": str(dataset), "robot": kind.robot_file(robot), "state_key": kind.study_state}


def robot_identity(kind: EnvironmentType, robot: str | None) -> str | None:
    """The map's name, and what its file says where it is not the environment's usual one."""
    if robot is None:
        return None
    file = Path(kind.robot_file(robot))
    return f"{robot} {fingerprint(file.read_text())}" if file.is_file() else robot
