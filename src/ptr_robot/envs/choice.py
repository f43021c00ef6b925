"""Which environment, in the words of the flags: ``--env.type=metaworld --env.task=reach-v3,push-v3``."""

from __future__ import annotations

from dataclasses import dataclass

from ptr_robot.envs.base import CameraConfig, EnvironmentType
from ptr_robot.envs.registry import DEFAULT, environment_type
from ptr_robot.errors import ConfigError


@dataclass(frozen=True)
class EnvironmentChoice:
    """Which environment, which of its tasks, and which of its cameras."""

    # The environment's name.
    type: str = DEFAULT
    # Tasks, separated by commas.
    task: str | None = None
    # Cameras by the environment's names, separated by commas.
    camera: str | None = None
    # Pixels a side of what a camera gives.
    image_size: int | None = None
    # Pictures lit as the simulator ships them, as LeRobot renders LIBERO; false: no shadows, less time.
    full_light: bool = False

    def __post_init__(self) -> None:
        if self.task is not None and not _split(self.task):
            raise ConfigError(f"env.task names no task; for example --env.task={self.kind.default_tasks[0]}")

    @property
    def kind(self) -> EnvironmentType:
        """The environment that the type names."""
        return environment_type(self.type)

    def tasks(self, default: tuple[str, ...]) -> tuple[str, ...]:
        """The tasks by their full names."""
        return self.kind.resolve_tasks(default if self.task is None else _split(self.task))

    @property
    def camera_names(self) -> tuple[str, ...] | None:
        """The cameras that were named; None: whoever asks knows which."""
        return None if self.camera is None else _split(self.camera)

    def cameras(self) -> CameraConfig:
        """The cameras that record: those that were named, or the environment's usual ones."""
        names = self.camera_names or self.kind.default_cameras
        size = CameraConfig.image_size if self.image_size is None else self.image_size
        return self.kind.check_cameras(CameraConfig(names, size, self.full_light))


def _split(words: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in words.split(",") if word.strip())
