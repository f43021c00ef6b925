"""A trained policy in Meta-World: loaded from its checkpoint in the process that uses it, seeded by episode."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ptr_robot.envs.metaworld.environment import ACTION_DIM, ENVIRONMENT_STATE_DIM, STATE_DIM
from ptr_robot.envs.metaworld.rendering import CameraConfig
from ptr_robot.envs.metaworld.tasks import instructions
from ptr_robot.errors import ConfigError
from ptr_robot.eval.interface import Observation, RolloutEpisode
from ptr_robot.policy.deployed import DeployedPolicy, RobotObservation
from ptr_robot.train.sources import SourceRecord
from ptr_robot.train.trained import load_trained, pretrained_folder

# The states that Meta-World gives, under the names that ``ptr collect`` and LeRobot record them by.
STATE_SIZES = {"observation.state": STATE_DIM, "observation.environment_state": ENVIRONMENT_STATE_DIM}
LAST_CHECKPOINT = Path("checkpoints") / "last"


class MetaWorldPolicy:
    """What ``rollout`` asks of a policy, answered by a deployed one.

    The camera and the state are those of training: the policy's own record says which view it looks through, and
    whether it feels the hand alone or everything that Meta-World observes.
    """

    def __init__(self, deployed: DeployedPolicy, source: SourceRecord, seed: int) -> None:
        self._deployed = deployed
        self._sees_everything = source.state_map.slots.size == ENVIRONMENT_STATE_DIM
        self._seed = seed

    def reset(self, slot: int, episode: RolloutEpisode) -> None:
        """An episode begins: its noise depends on the run's seed, the task and the layout, and on nothing else."""
        numbers = [self._seed, zlib.crc32(episode.task.encode()), episode.seed]
        self._deployed.reset(slot, int(np.random.SeedSequence(numbers).generate_state(1)[0]))

    def act(self, observations: Sequence[Observation]) -> NDArray[np.float32]:  # (N, L, 4)
        """The next chunk of each episode."""
        slots = [observation.slot for observation in observations]
        return self._deployed.act(slots, [self._observe(observation) for observation in observations])

    def _observe(self, observation: Observation) -> RobotObservation:
        return RobotObservation(
            state=observation.environment_state if self._sees_everything else observation.state,
            images={key: observation.image for key in self._deployed.camera_keys},  # noqa: C420 (no key: no rendering)
            instruction=observation.instruction,
        )


def load_rollout_policy(path: str, seed: int, number: int | None = None, device: str = "cpu") -> MetaWorldPolicy:
    """The policy at ``path`` with the maps of one of its sources, the first that Meta-World can feed unless named.

    A partial of this function is what ``rollout`` calls in each of its processes.
    """
    trained = load_trained(checkpoint_folder(Path(path)))
    source = trained.sources[fed_sources(path, trained.sources)[0] if number is None else number]
    return MetaWorldPolicy(DeployedPolicy(trained.policy, trained.belief, source, device=device), source, seed)


def checkpoint_folder(path: Path) -> Path:
    """The checkpoint that ``path`` means: a run folder stands for its last one."""
    last = path.expanduser() / LAST_CHECKPOINT
    return last.resolve() if last.is_dir() else path.expanduser()


def same_checkpoint(one: Path, other: Path) -> bool:
    """Whether two paths, of runs, checkpoints or their policies, mean the same weights."""
    return pretrained_folder(one).resolve() == pretrained_folder(other).resolve()


def tasks_by_source(path: str, sources: Sequence[SourceRecord], tasks: Sequence[str]) -> dict[int, list[str]]:
    """Which tasks are met with the maps of which source: one that shows the task, or the only one there is."""
    fed, words = fed_sources(path, sources), instructions()
    chosen: dict[int, list[str]] = {}
    for task in tasks:
        showing = [number for number in fed if words[task] in sources[number].tasks]
        if not showing and len(fed) > 1:
            names = ", ".join(sources[number].name for number in fed)
            raise ConfigError(f"{path} was trained on {names}, none of which shows {task}: name tasks that one shows")
        chosen.setdefault((showing or fed)[0], []).append(task)
    return chosen


def fed_sources(path: str, sources: Sequence[SourceRecord]) -> list[int]:
    """The sources that Meta-World can feed, by number; a policy of another robot is refused in one line."""
    numbers = [
        number
        for number, source in enumerate(sources)
        if _is_fed(source) and source.action_map.slots.size == ACTION_DIM
    ]
    if numbers:
        return numbers
    known = ", ".join(
        f"{source.robot} ({source.state_key or 'state'} {source.state_map.slots.size}, "
        f"action {source.action_map.slots.size})"
        for source in sources
    )
    raise ConfigError(
        f"{path} was trained for {known}; Meta-World gives a state of {STATE_DIM} or {ENVIRONMENT_STATE_DIM} numbers "
        f"and takes an action of {ACTION_DIM}: evaluate a policy that was trained on Meta-World"
    )


def _is_fed(source: SourceRecord) -> bool:
    """Whether its state is one of Meta-World's; a record of an earlier version tells by its length alone."""
    size = source.state_map.slots.size
    return size in STATE_SIZES.values() if source.state_key is None else STATE_SIZES.get(source.state_key) == size


def camera_of(path: str, source: SourceRecord, image_size: int | None = None, name: str | None = None) -> CameraConfig:
    """The camera that the policy looks through, found by its key, with the pixels of its data, unless the user says."""
    image_size = recorded_size(path, source) if image_size is None else image_size
    keys = [key for key in source.cameras if key is not None]
    if len(keys) > 1:
        raise ConfigError(f"{path} looks through {', '.join(keys)}; Meta-World's rollouts have one camera")
    if not keys or name is not None:
        return CameraConfig(name or CameraConfig.name, image_size)
    try:
        return CameraConfig(keys[0].rpartition(".")[2], image_size)
    except ConfigError as error:
        raise ConfigError(f"{path} looks through {keys[0]!r}: {error}; name one with --env.camera") from error


def recorded_size(path: str, source: SourceRecord) -> int:
    """Pixels a side of the images that the policy was trained on; the simulator's own where that is not known."""
    sizes = {size for size in source.camera_sizes if size is not None}
    if not sizes:
        return CameraConfig.image_size
    height, width = sizes.pop()
    if sizes or height != width:
        raise ConfigError(
            f"{path} was trained on images of {height} x {width} pixels; Meta-World's are square: choose a size with "
            "--env.image_size"
        )
    return height
