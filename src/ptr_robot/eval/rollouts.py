"""Rollouts of a policy over tasks and seeds: several environments a process, several processes, images on demand."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ptr_robot.envs.base import CameraConfig, Environment, EnvironmentType, Image
from ptr_robot.envs.workers import worker_processes
from ptr_robot.errors import ConfigError, ShapeError
from ptr_robot.eval.results import EpisodeResult, RolloutResult
from ptr_robot.eval.rollout_policy import RolloutEpisode, RolloutObservation, RolloutPolicy
from ptr_robot.eval.videos import write_video

PolicyFactory = Callable[[], RolloutPolicy]


@dataclass(frozen=True)
class RolloutConfig:
    """How rollouts are run. ``batch_size`` may change a policy's rounding, ``num_processes`` changes nothing."""

    execute_steps: int = 8  # how many actions of a chunk are executed before the policy looks again
    max_steps: int | None = None  # when an episode counts as failed; None: as the environment has it for the task
    batch_size: int = 8  # environments that one process steps together; the policy is called once for all
    num_processes: int = 2
    cameras: CameraConfig | None = None  # the first makes the videos; None: the environment's usual ones
    videos_per_task: int = 0
    videos_dir: str | None = None
    initial_states: tuple[int, ...] | None = None  # official, gone through in this order; None: all in their own order

    def __post_init__(self) -> None:
        for name in ("execute_steps", "batch_size", "num_processes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least 1")
        if self.max_steps is not None and self.max_steps < 1:
            raise ConfigError(f"max_steps={self.max_steps} must be at least 1")
        if self.videos_per_task and self.videos_dir is None:
            raise ConfigError(f"videos_per_task={self.videos_per_task} needs videos_dir, the folder to write them to")


@dataclass(frozen=True)
class _Plan:
    """What every process is told."""

    environment_type: EnvironmentType
    config: RolloutConfig
    cameras: CameraConfig
    max_steps: dict[str, int]  # by task
    recorded: frozenset[RolloutEpisode]


def check_max_steps(environment_type: EnvironmentType, task: str, max_steps: int | None) -> int:
    """When an episode of the task ends without success; more than its simulator allows is refused."""
    limits = environment_type.step_limits(task)
    if max_steps is not None and not 1 <= max_steps <= limits.most:
        raise ConfigError(f"max_steps={max_steps} is out of range; {environment_type.title} allows 1 to {limits.most}")
    return limits.usual if max_steps is None else max_steps


def check_initial_states(
    environment_type: EnvironmentType, task: str, initial_states: Sequence[int] | None
) -> Sequence[int]:
    """The official initial states that a task's episodes go through, none where the seeds draw layouts."""
    count = environment_type.num_initial_states(task)
    if initial_states is None:
        return range(count)
    if not count:
        raise ConfigError(
            f"initial_states={list(initial_states)}: {environment_type.title} has no official initial states; leave it "
            "out, its layouts are drawn by the seed"
        )
    unknown = next((state for state in initial_states if not 0 <= state < count), None)
    if unknown is not None or not initial_states:
        named = "no state" if unknown is None else str(unknown)
        raise ConfigError(f"initial_states names {named}; {task} has the states 0 to {count - 1}")
    return initial_states


def rollout(
    policy_factory: PolicyFactory,
    environment_type: EnvironmentType,
    tasks: Sequence[str],
    seeds: Sequence[int],
    config: RolloutConfig | None = None,
    on_episode: Callable[[EpisodeResult], None] | None = None,
    known: Mapping[RolloutEpisode, EpisodeResult] | None = None,
) -> RolloutResult:
    """Roll the policy out once for every task and seed, but for the episodes whose results are ``known``.

    ``policy_factory`` is pickled and called once in every process, so it must be a function of a module or a partial
    of one; it loads the policy where it is used. Episodes are grouped before they are spread, so that a batch always
    holds the same episodes. One that a video is wanted of is known if it has one.
    """
    config = config or RolloutConfig()
    resolved = environment_type.resolve_tasks(tasks)
    episodes = {task: evaluation_episodes(environment_type, task, seeds, config.initial_states) for task in resolved}
    if not seeds:
        raise ConfigError("no seed was given; rollouts need at least one")
    plan = _Plan(
        environment_type,
        config,
        environment_type.check_cameras(config.cameras or CameraConfig(environment_type.default_cameras)),
        {task: check_max_steps(environment_type, task, config.max_steps) for task in resolved},
        frozenset(episode for own in episodes.values() for episode in own[: config.videos_per_task]),
    )
    together = min(config.batch_size, environment_type.max_per_process or config.batch_size)
    ordered = [episode for own in episodes.values() for episode in own]
    groups = [ordered[start : start + together] for start in range(0, len(ordered), together)]
    results = {
        episode: result
        for episode, result in (known or {}).items()
        if result.video is not None or episode not in plan.recorded
    }
    missing = [group for group in groups if not all(episode in results for episode in group)]
    if not missing:
        return RolloutResult(tuple(results[episode] for episode in ordered))
    for group, group_results in zip(missing, _run_groups(policy_factory, missing, plan), strict=True):
        results.update(zip(group, group_results, strict=True))
        if on_episode is not None:
            for result in group_results:
                on_episode(result)
    return RolloutResult(tuple(results[episode] for episode in ordered))


def evaluation_episodes(
    environment_type: EnvironmentType, task: str, seeds: Sequence[int], initial_states: Sequence[int] | None = None
) -> list[RolloutEpisode]:
    """The episodes of a task: official initial states, all or those that are named, in turn, or the seeds' layouts."""
    states = check_initial_states(environment_type, task, initial_states)
    return [
        RolloutEpisode(task, seed, states[number % len(states)] if states else None)
        for number, seed in enumerate(seeds)
    ]


def _run_groups(
    policy_factory: PolicyFactory, groups: Sequence[Sequence[RolloutEpisode]], plan: _Plan
) -> Iterator[list[EpisodeResult]]:
    num_processes = min(plan.config.num_processes, len(groups))
    if num_processes == 1:
        worker = _Worker(policy_factory, plan)
        try:
            yield from map(worker.run_group, groups)
        finally:
            worker.close()
        return
    sharing_factory = functools.partial(_make_sharing_policy, policy_factory, num_processes)
    with worker_processes(num_processes, _start_worker, (sharing_factory, plan)) as executor:
        yield from executor.map(_run_group, groups)


class _Worker:
    """One process's policy and environments; environments are kept from group to group."""

    def __init__(self, policy_factory: PolicyFactory, plan: _Plan) -> None:
        self._policy_factory = policy_factory
        self._plan = plan
        self._idle: list[Environment] = []

    @functools.cached_property
    def _policy(self) -> RolloutPolicy:
        """Made with the first group and not when a process starts, where an error would lose its message."""
        return self._policy_factory()

    def run_group(self, group: Sequence[RolloutEpisode]) -> list[EpisodeResult]:
        """Step the group's environments together until every episode has ended."""
        self._keep({episode.task for episode in group})
        runs = [self._begin(slot, episode) for slot, episode in enumerate(group)]
        self._keep(set())
        while running := [run for run in runs if not run.is_over]:
            observations = [RolloutObservation(run.environment, run.slot, run.episode) for run in running]
            chunks = _checked(self._policy.act(observations), len(running), self._plan.environment_type.action.size)
            for run, observation, chunk in zip(running, observations, chunks, strict=True):
                run.num_looks += observation.has_looked
                run.execute(chunk[: self._plan.config.execute_steps])
        self._idle = [run.environment for run in runs]
        return [self._finish(run) for run in runs]

    def close(self) -> None:
        """Give back the environments."""
        self._keep(set())

    def _keep(self, tasks: set[str]) -> None:
        """Close what this group does not use, before anything is made: some simulators allow one at a time."""
        for environment in self._idle:
            if environment.task not in tasks:
                environment.close()
        self._idle = [environment for environment in self._idle if environment.task in tasks]

    def _begin(self, slot: int, episode: RolloutEpisode) -> _Run:
        plan = self._plan
        idle = next((environment for environment in self._idle if environment.task == episode.task), None)
        if idle is not None:
            self._idle.remove(idle)
        environment = idle or plan.environment_type.make(episode.task, plan.cameras)
        environment.reset(episode.seed, episode.initial_state)
        self._policy.reset(slot, episode)
        films = plan.cameras.names[0] if episode in plan.recorded else None
        return _Run(slot, episode, environment, plan.max_steps[episode.task], films)

    def _finish(self, run: _Run) -> EpisodeResult:
        video = None
        if run.films is not None and self._plan.config.videos_dir is not None:
            name = f"{run.episode.task.replace('/', '-')}-seed-{run.episode.seed}.mp4"
            video = str(Path(self._plan.config.videos_dir) / name)
            write_video(Path(video), run.frames, self._plan.environment_type.frames_per_second)
        return EpisodeResult(
            task=run.episode.task,
            seed=run.episode.seed,
            is_success=run.environment.is_success,
            num_steps=run.environment.num_steps,
            num_looks=run.num_looks,
            video=video,
            initial_state=run.episode.initial_state,
        )


@dataclass
class _Run:
    """An episode under way."""

    slot: int
    episode: RolloutEpisode
    environment: Environment
    max_steps: int
    films: str | None  # the camera whose frames are kept
    frames: list[Image] = field(default_factory=list)
    num_looks: int = 0

    @property
    def is_over(self) -> bool:
        return self.environment.is_success or self.environment.num_steps >= self.max_steps

    def execute(self, chunk: npt.NDArray[np.float64]) -> None:
        """Execute a chunk open loop; success ends it, as it ends an episode in LeRobot's environment."""
        for action in chunk:
            if self.is_over:
                return
            if self.films is not None:
                self.frames.append(self.environment.render(self.films))
            self.environment.step(action)


_worker: _Worker | None = None


def _start_worker(policy_factory: PolicyFactory, plan: _Plan) -> None:
    global _worker
    _worker = _Worker(policy_factory, plan)


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


def _checked(chunks: npt.NDArray[np.float64], num_observations: int, action_size: int) -> npt.NDArray[np.float64]:
    if chunks.ndim != 3 or chunks.shape[0] != num_observations or chunks.shape[1] < 1 or chunks.shape[2] != action_size:
        raise ShapeError(
            f"the policy returned chunks of shape {chunks.shape} for {num_observations} observations; "
            f"it must return ({num_observations}, L, {action_size}) with L at least 1"
        )
    return chunks
