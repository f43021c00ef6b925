"""Rollouts of a policy over tasks and seeds: several environments a process, several processes, images on demand."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.metaworld.environment import ACTION_DIM, MAX_STEPS, MetaWorldEnvironment
from ptr_robot.envs.metaworld.rendering import CameraConfig, Image
from ptr_robot.envs.metaworld.tasks import resolve_tasks
from ptr_robot.envs.workers import worker_processes
from ptr_robot.errors import ConfigError, ShapeError
from ptr_robot.eval.interface import Observation, RolloutEpisode, RolloutPolicy
from ptr_robot.eval.results import EpisodeResult, RolloutResult
from ptr_robot.eval.videos import write_video

PolicyFactory = Callable[[], RolloutPolicy]


@dataclass(frozen=True)
class RolloutConfig:
    """How rollouts are run. ``batch_size`` may change a policy's rounding, ``num_processes`` changes nothing."""

    execute_steps: int = 8  # how many actions of a chunk are executed before the policy looks again
    max_steps: int = 400
    batch_size: int = 8  # environments that one process steps together; the policy is called once for all
    num_processes: int = 2
    camera: CameraConfig = field(default_factory=CameraConfig)
    videos_per_task: int = 0
    videos_dir: str | None = None

    def __post_init__(self) -> None:
        for name in ("execute_steps", "batch_size", "num_processes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if not 1 <= self.max_steps <= MAX_STEPS:
            raise ConfigError(f"max_steps={self.max_steps} is out of range; Meta-World allows 1 to {MAX_STEPS}")
        if self.videos_per_task and self.videos_dir is None:
            raise ConfigError(f"videos_per_task={self.videos_per_task} needs videos_dir, the folder to write them to")


def rollout(
    policy_factory: PolicyFactory,
    tasks: Sequence[str],
    seeds: Sequence[int],
    config: RolloutConfig | None = None,
    on_episode: Callable[[EpisodeResult], None] | None = None,
) -> RolloutResult:
    """Roll the policy out once for every task and seed.

    ``policy_factory`` is pickled and called once in every process, so it must be a function of a module or a partial
    of one; it loads the policy where it is used. Episodes are grouped before they are spread, so that a batch always
    holds the same episodes.
    """
    config = config or RolloutConfig()
    episodes = [RolloutEpisode(task, seed) for task in resolve_tasks(tasks) for seed in seeds]
    if not episodes:
        raise ConfigError("no seed was given; rollouts need at least one")
    recorded = {RolloutEpisode(task, seed) for task in resolve_tasks(tasks) for seed in seeds[: config.videos_per_task]}
    groups = [episodes[start : start + config.batch_size] for start in range(0, len(episodes), config.batch_size)]
    results: list[EpisodeResult] = []
    for group_results in _run_groups(policy_factory, groups, frozenset(recorded), config):
        results.extend(group_results)
        if on_episode is not None:
            for result in group_results:
                on_episode(result)
    return RolloutResult(tuple(results))


Groups = Sequence[Sequence[RolloutEpisode]]


def _run_groups(
    policy_factory: PolicyFactory, groups: Groups, recorded: frozenset[RolloutEpisode], config: RolloutConfig
) -> Iterator[list[EpisodeResult]]:
    num_processes = min(config.num_processes, len(groups))
    if num_processes == 1:
        worker = _Worker(policy_factory, recorded, config)
        yield from map(worker.run_group, groups)
        return
    sharing_factory = functools.partial(_make_sharing_policy, policy_factory, num_processes)
    with worker_processes(num_processes, _start_worker, (sharing_factory, recorded, config)) as executor:
        yield from executor.map(_run_group, groups)


class _Worker:
    """One process's policy and environments; environments are kept from group to group."""

    def __init__(
        self, policy_factory: PolicyFactory, recorded: frozenset[RolloutEpisode], config: RolloutConfig
    ) -> None:
        self._policy_factory = policy_factory
        self._recorded = recorded
        self._config = config
        self._idle: list[MetaWorldEnvironment] = []

    @functools.cached_property
    def _policy(self) -> RolloutPolicy:
        """Made with the first group and not when a process starts, where an error would lose its message."""
        return self._policy_factory()

    def run_group(self, group: Sequence[RolloutEpisode]) -> list[EpisodeResult]:
        """Step the group's environments together until every episode has ended."""
        runs = [self._begin(slot, episode) for slot, episode in enumerate(group)]
        while running := [run for run in runs if not run.is_over(self._config.max_steps)]:
            observations = [Observation(run.environment, run.slot, run.episode) for run in running]
            chunks = _checked(self._policy.act(observations), len(running))
            for run, observation, chunk in zip(running, observations, chunks, strict=True):
                run.num_looks += "image" in vars(observation)
                run.execute(chunk[: self._config.execute_steps], self._config.max_steps)
        self._idle = [run.environment for run in runs]
        return [self._finish(run) for run in runs]

    def _begin(self, slot: int, episode: RolloutEpisode) -> _Run:
        idle = next((environment for environment in self._idle if environment.task == episode.task), None)
        if idle is not None:
            self._idle.remove(idle)
        environment = idle or MetaWorldEnvironment(episode.task, self._config.camera)
        environment.reset(episode.seed)
        self._policy.reset(slot, episode)
        return _Run(slot, episode, environment, frames=[] if episode in self._recorded else None)

    def _finish(self, run: _Run) -> EpisodeResult:
        video = None
        if run.frames is not None and self._config.videos_dir is not None:
            video = str(Path(self._config.videos_dir) / f"{run.episode.task}-seed-{run.episode.seed}.mp4")
            write_video(Path(video), run.frames)
        return EpisodeResult(
            task=run.episode.task,
            seed=run.episode.seed,
            is_success=run.environment.is_success,
            num_steps=run.environment.num_steps,
            num_looks=run.num_looks,
            video=video,
        )


@dataclass
class _Run:
    """An episode under way."""

    slot: int
    episode: RolloutEpisode
    environment: MetaWorldEnvironment
    frames: list[Image] | None
    num_looks: int = 0

    def is_over(self, max_steps: int) -> bool:
        return self.environment.is_success or self.environment.num_steps >= max_steps

    def execute(self, chunk: npt.NDArray[np.float64], max_steps: int) -> None:
        """Execute a chunk open loop; success ends it, as it ends an episode in LeRobot's environment."""
        for action in chunk:
            if self.is_over(max_steps):
                return
            if self.frames is not None:
                self.frames.append(self.environment.render())
            self.environment.step(action)


_worker: _Worker | None = None


def _start_worker(policy_factory: PolicyFactory, recorded: frozenset[RolloutEpisode], config: RolloutConfig) -> None:
    global _worker
    _worker = _Worker(policy_factory, recorded, config)


def _make_sharing_policy(policy_factory: PolicyFactory, num_processes: int) -> RolloutPolicy:
    """This process's policy, which gets its share of the cores if it is torch's."""
    policy = policy_factory()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(max(1, len(os.sched_getaffinity(0)) // num_processes))
    return policy


def _run_group(group: Sequence[RolloutEpisode]) -> list[EpisodeResult]:
    if _worker is None:
        raise RuntimeError("the worker process was not started by rollout()")
    return _worker.run_group(group)


def _checked(chunks: npt.NDArray[np.float64], num_observations: int) -> npt.NDArray[np.float64]:
    if chunks.ndim != 3 or chunks.shape[0] != num_observations or chunks.shape[1] < 1 or chunks.shape[2] != ACTION_DIM:
        raise ShapeError(
            f"the policy returned chunks of shape {chunks.shape} for {num_observations} observations; "
            f"it must return ({num_observations}, L, {ACTION_DIM}) with L at least 1"
        )
    return chunks
