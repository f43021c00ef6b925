"""A trained policy in an environment: loaded from its checkpoint in the process that uses it, seeded by episode."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ptr_robot.envs.base import CameraConfig, EnvironmentType
from ptr_robot.errors import ConfigError
from ptr_robot.eval.rollout_policy import RolloutEpisode, RolloutObservation
from ptr_robot.eval.same_robot import of_same_robot
from ptr_robot.policy.deployed import DeployedPolicy, RobotObservation
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.sources import SourceRecord
from ptr_robot.train.trained import load_trained, pretrained_folder


class CheckpointPolicy:
    """What ``rollout`` asks of a policy, answered by a deployed one.

    The cameras and the state are those of training: the policy's own record says which views it looks through, and
    which of the environment's states it is given.
    """

    def __init__(self, deployed: DeployedPolicy, state_key: str, camera_of_key: Mapping[str, str], seed: int) -> None:
        self._deployed = deployed
        self._state_key = state_key
        self._camera_of_key = camera_of_key
        self._seed = seed

    def reset(self, slot: int, episode: RolloutEpisode) -> None:
        """An episode begins: its noise depends on the run's seed, the task and the layout, and on nothing else."""
        numbers = [self._seed, zlib.crc32(episode.task.encode()), episode.seed]
        self._deployed.reset(slot, int(np.random.SeedSequence(numbers).generate_state(1)[0]))

    def act(self, observations: Sequence[RolloutObservation]) -> NDArray[np.float32]:  # (N, L, Da)
        """The next chunk of each episode."""
        slots = [observation.slot for observation in observations]
        return self._deployed.act(slots, [self._observe(observation) for observation in observations])

    def _observe(self, observation: RolloutObservation) -> RobotObservation:
        images = {key: observation.image(self._camera_of_key[key]) for key in self._deployed.camera_keys}
        return RobotObservation(observation.states[self._state_key], images, observation.instruction)


def load_rollout_policy(
    path: str,
    seed: int,
    environment_type: EnvironmentType,
    number: int | None = None,
    device: str = "cpu",
    camera_names: Sequence[str] | None = None,
    n_action_steps: int | None = None,
) -> CheckpointPolicy:
    """The policy at ``path`` with the maps of one of its sources, the first that can be fed unless named by ``number``.

    ``n_action_steps`` actions of a chunk are carried out before the next look, all of them if it is unset.

    A partial of this function is what ``rollout`` calls in each of its processes.
    """
    trained = load_trained(checkpoint_folder(Path(path)))
    # Whoever names a source has compared its robot with the environment's, or knows better.
    source = trained.sources[fed_sources(path, trained.sources, environment_type)[0] if number is None else number]
    cameras = cameras_by_key(path, source, environment_type, camera_names)
    deployed = DeployedPolicy(trained.policy, trained.belief, source, device=device, n_action_steps=n_action_steps)
    state_key = state_key_of(source, environment_type)
    if state_key is None:
        raise ConfigError(f"{path}: {environment_type.title} has no state like the one of source {number}")
    return CheckpointPolicy(deployed, state_key, cameras, seed)


def checkpoint_folder(path: Path) -> Path:
    """The checkpoint that ``path`` means: a run folder stands for its last one."""
    return latest_checkpoint(path.expanduser()) or path.expanduser()


def same_checkpoint(one: Path, other: Path) -> bool:
    """Whether two paths, of runs, checkpoints or their policies, mean the same weights."""
    return pretrained_folder(one).resolve() == pretrained_folder(other).resolve()


def tasks_by_source(
    path: str,
    sources: Sequence[SourceRecord],
    environment_type: EnvironmentType,
    tasks: Sequence[str],
    allow_other_robot: bool = False,
) -> dict[int, list[str]]:
    """Which tasks are met with the maps of which source: one that shows the task, or the only one there is."""
    fed = fed_sources(path, sources, environment_type, allow_other_robot)
    chosen: dict[int, list[str]] = {}
    for task in tasks:
        showing = [number for number in fed if environment_type.instruction(task) in sources[number].tasks]
        if not showing and len(fed) > 1:
            names = ", ".join(sources[number].name for number in fed)
            raise ConfigError(f"{path} was trained on {names}, none of which shows {task}: name tasks that one shows")
        chosen.setdefault((showing or fed)[0], []).append(task)
    return chosen


def fed_sources(
    path: str,
    sources: Sequence[SourceRecord],
    environment_type: EnvironmentType,
    allow_other_robot: bool = False,
) -> list[int]:
    """The sources that the environment can feed, by number; a policy of another robot is refused in one line."""
    action_size = environment_type.action.size
    numbers = [
        number
        for number, source in enumerate(sources)
        if state_key_of(source, environment_type) is not None and source.action_map.slots.size == action_size
    ]
    if numbers:
        return numbers if allow_other_robot else of_same_robot(path, sources, numbers, environment_type)
    known = ", ".join(
        f"{source.robot} ({source.state_key or 'state'} {source.state_map.slots.size}, "
        f"action {source.action_map.slots.size})"
        for source in sources
    )
    sizes = " or ".join(str(feature.size) for feature in environment_type.states.values())
    title = environment_type.title
    raise ConfigError(
        f"{path} was trained for {known}; {title} gives a state of {sizes} numbers "
        f"and takes an action of {action_size}: evaluate a policy that was trained on {title}"
    )


def state_key_of(source: SourceRecord, environment_type: EnvironmentType) -> str | None:
    """Which of the environment's states the policy was trained on; a record of version 0.1 may tell by size alone."""
    fitting = [key for key, feature in environment_type.states.items() if feature.size == source.state_map.slots.size]
    if source.state_key is not None:
        return source.state_key if source.state_key in fitting else None
    return fitting[0] if fitting else None


def cameras_by_key(
    path: str, source: SourceRecord, environment_type: EnvironmentType, names: Sequence[str] | None = None
) -> dict[str, str]:
    """The camera behind each key that the policy looks through: found by the key, unless the user names them."""
    keys = [key for key in source.cameras if key is not None]
    if names is not None and keys:
        if len(names) != len(keys):
            raise ConfigError(f"{path} looks through {', '.join(keys)}; name as many cameras with --env.camera")
        return dict(zip(keys, names, strict=True))
    try:
        return {key: environment_type.camera_of(key) for key in keys}
    except ConfigError as error:
        raise ConfigError(f"{path} looks through {', '.join(keys)}: {error}; name one with --env.camera") from error


def cameras_of(
    path: str,
    source: SourceRecord,
    environment_type: EnvironmentType,
    image_size: int | None = None,
    names: Sequence[str] | None = None,
    full_light: bool = False,
) -> CameraConfig:
    """The cameras that the policy looks through, with the pixels of its data, unless the user says."""
    found = tuple(dict.fromkeys(cameras_by_key(path, source, environment_type, names).values()))
    chosen = found or tuple(names or environment_type.default_cameras)
    size = recorded_size(path, source) if image_size is None else image_size
    return environment_type.check_cameras(CameraConfig(chosen, size, full_light))


def recorded_size(path: str, source: SourceRecord) -> int:
    """Pixels a side of the images that the policy was trained on; the usual number where that is not known."""
    sizes = {size for size in source.camera_sizes if size is not None}
    if not sizes:
        return CameraConfig.image_size
    height, width = sizes.pop()
    if sizes or height != width:
        raise ConfigError(
            f"{path} was trained on images of {height} x {width} pixels; rollouts' are square and of one size: choose "
            "it with --env.image_size"
        )
    return height
