"""The data of a study as jobs: demonstrations, and their corrupted copies."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from ptr_robot.data.corruptions import corrupt_dataset
from ptr_robot.envs.base import CameraConfig, EnvironmentType
from ptr_robot.envs.collection import COLLECTION_VERSION, plan_episodes, resolve_mixture
from ptr_robot.envs.recording import RecordingConfig, record
from ptr_robot.envs.registry import DEFAULT as DEFAULT_ENVIRONMENT
from ptr_robot.envs.registry import environment_type
from ptr_robot.files import fingerprint
from ptr_robot.study.cells.stage_job import StageJob
from ptr_robot.study.engine.jobs import Job
from ptr_robot.study.spec.definition import Demonstrations
from ptr_robot.study.spec.setting import CorruptionSettings

CACHE_FOLDER = "cache"


@dataclass(frozen=True)
class DatasetJob(StageJob):
    """A dataset that cells train on."""

    @property
    @abstractmethod
    def environment_type(self) -> EnvironmentType | None:
        """What policies of this data are evaluated in; None where nobody has a simulator."""

    @property
    @abstractmethod
    def state_key(self) -> str:
        """The vector that policies are given as the state."""

    @property
    @abstractmethod
    def has_truth(self) -> bool:
        """Whether it is on record which episodes have which faults."""

    @property
    @abstractmethod
    def camera_size(self) -> int | None:
        """Pixels a side of its pictures; None: as the dataset says."""

    @abstractmethod
    def robot_file(self, robot: str | None) -> str | None:
        """The file or the name of its robot map; None: the one that its robot_type names."""

    def source_fields(self, robot: str | None) -> dict[str, Any]:
        """How a study reads it; ``robot`` is one of the environment's own maps, one of ptr-robot's, or a file."""
        return {"repo_id": str(self.output), "robot": self.robot_file(robot), "state_key": self.state_key}

    def robot_identity(self, robot: str | None) -> str | None:
        """The map's name, and what its file says where it is not the usual one."""
        named = None if robot is None else self.robot_file(robot)
        if named is None:
            return None
        file = Path(named)
        return f"{robot} {fingerprint(file.read_text())}" if file.is_file() else robot


@dataclass(frozen=True)
class CollectJob(DatasetJob):
    """Demonstrations of one seed, with everything that the simulator knows as the state."""

    tasks: tuple[str, ...]
    demonstrations: Demonstrations
    seed: int
    env: str = DEFAULT_ENVIRONMENT
    num_recorders: int = 1  # processes; the dataset is the same for any number

    folder: ClassVar[str] = "demonstrations"

    @property
    def environment_type(self) -> EnvironmentType:
        """Where they are recorded, and policies are evaluated."""
        return environment_type(self.env)

    @property
    def state_key(self) -> str:
        """What the environment gives to studies."""
        return self.environment_type.study_state

    @property
    def has_truth(self) -> bool:
        """What each operator did."""
        return True

    @property
    def camera_size(self) -> int:
        """As the study says."""
        return self.demonstrations.camera_size

    def robot_file(self, robot: str | None) -> str:
        """By default the environment's own map."""
        return self.environment_type.robot_file(robot)

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
class CorruptJob(DatasetJob):
    """A corrupted copy of demonstrations, or of a dataset that was recorded elsewhere."""

    source: DatasetJob
    corruption: CorruptionSettings
    seed: int

    folder: ClassVar[str] = "corrupted"

    @property
    def environment_type(self) -> EnvironmentType | None:
        """As that of what is copied."""
        return self.source.environment_type

    @property
    def state_key(self) -> str:
        """As that of what is copied."""
        return self.source.state_key

    @property
    def has_truth(self) -> bool:
        """What was corrupted; of a recorded dataset nothing else."""
        return True

    @property
    def camera_size(self) -> int | None:
        """As that of what is copied."""
        return self.source.camera_size

    def robot_file(self, robot: str | None) -> str | None:
        """As that of what is copied."""
        return self.source.robot_file(robot)

    @property
    def after(self) -> tuple[Job, ...]:
        """What is copied."""
        return (self.source,)

    @property
    def title(self) -> str:
        """For the terminal."""
        return f"corruption {self.corruption.kind}, seed {self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """What is done to them."""
        return {**asdict(self.corruption), "seed": self.seed}

    def make(self, output: Path) -> None:
        """Write the copy."""
        corrupt_dataset(self.source.output, output, self.corruption.corruptions(), seed=self.seed)
