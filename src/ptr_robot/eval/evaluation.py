"""Rollouts of a saved policy: success by task with intervals, ``eval_info.json`` and videos."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ptr_robot.envs.choice import EnvironmentChoice
from ptr_robot.errors import ConfigError
from ptr_robot.eval.finished_episodes import FinishedEpisodes
from ptr_robot.eval.results import EpisodeResult, RolloutResult
from ptr_robot.eval.rollouts import RolloutConfig, check_initial_states, check_max_steps, rollout
from ptr_robot.eval.saved_policy import (
    cameras_of,
    checkpoint_folder,
    load_rollout_policy,
    same_checkpoint,
    tasks_by_source,
)
from ptr_robot.eval.success_statistics import Interval
from ptr_robot.files import atomic_file, file_identity, fingerprint, process_lock
from ptr_robot.policy.registry import read_policy_config
from ptr_robot.text_files import read_json
from ptr_robot.train.checkpoint_folders import FOLDER as CHECKPOINTS
from ptr_robot.train.checkpoint_folders import PRETRAINED
from ptr_robot.train.sources import SourceRecord, read_sources
from ptr_robot.train.trained import pretrained_folder

RESULTS_FILE = "eval_info.json"
LOCK = "eval"
VIDEOS_FOLDER = "videos"


@dataclass(frozen=True)
class PolicyFlags:
    """Which policy."""

    # A run folder (its last checkpoint), a checkpoint or its pretrained_model folder.
    path: str = ""
    # Where the policy computes: cpu or cuda.
    device: str = "cpu"
    # Go on although the policy's actions have other slots than the environment's.
    allow_other_robot: bool = False


@dataclass(frozen=True)
class EnvironmentFlags(EnvironmentChoice):
    """Where it acts: by default with the cameras and the image size that the policy was trained with."""

    # When an episode counts as failed; by default when the environment's own protocol says.
    max_steps: int | None = None


@dataclass(frozen=True)
class EpisodeFlags:
    """How often."""

    # Episodes of each task.
    n_episodes: int = 50
    # Environments that one process steps together; the policy sees them as one batch.
    batch_size: int = 8
    # Actions of a chunk that are executed before the policy looks again; by default 8, or a shorter chunk's all.
    n_action_steps: int | None = None
    # Official initial states by number, which a task's episodes start from in turn; by default all, from 0 on.
    initial_states: list[int] | None = None


@dataclass(frozen=True)
class EvaluationConfig:
    """Run a policy over tasks and seeds: ptr eval --policy.path=RUN --env.type=metaworld --env.task=reach,push."""

    policy: PolicyFlags = field(default_factory=PolicyFlags)
    env: EnvironmentFlags = field(default_factory=EnvironmentFlags)
    eval: EpisodeFlags = field(default_factory=EpisodeFlags)
    # The layout of the first episode; the following ones count up from it. Also of the policy's sampling.
    seed: int = 1000
    # Processes, each with environments of its own.
    num_workers: int = 2
    # Where eval_info.json and videos go; by default a folder named after the policy under outputs/eval.
    output_dir: str | None = None
    # Videos of each task.
    videos: int = 0

    def __post_init__(self) -> None:
        if self.eval.n_episodes < 1:
            raise ConfigError(f"eval.n_episodes is {self.eval.n_episodes}; it must be at least 1")
        if not 0 <= self.videos <= self.eval.n_episodes:
            raise ConfigError(f"videos is {self.videos}; it must be 0 to eval.n_episodes ({self.eval.n_episodes})")
        if self.policy.device not in ("cpu", "cuda"):
            raise ConfigError(f"policy.device is {self.policy.device!r}; it must be cpu or cuda")
        if self.policy.device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("policy.device is cuda and torch finds no GPU here; leave the flag out")
        if self.seed < 0:
            raise ConfigError(f"seed is {self.seed}; it must be 0 or more")
        for name, value in (("num_workers", self.num_workers), ("eval.n_action_steps", self.eval.n_action_steps)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks by their full names."""
        return self.env.tasks(self.env.kind.default_tasks[:1])

    @property
    def seeds(self) -> range:
        """The layouts, the same for every task and every policy."""
        return range(self.seed, self.seed + self.eval.n_episodes)

    @property
    def output(self) -> Path:
        """Where the results go."""
        if self.output_dir is not None:
            return Path(self.output_dir).expanduser()
        folder = pretrained_folder(Path(self.policy.path)).resolve()
        is_of_run = folder.name == PRETRAINED and folder.parent.parent.name == CHECKPOINTS
        run = folder.parent.parent.parent if is_of_run else folder.parent if folder.name == PRETRAINED else folder
        return Path("outputs") / "eval" / run.name


def evaluate(config: EvaluationConfig, on_episode: Callable[[EpisodeResult], None] | None = None) -> RolloutResult:
    """Roll the policy out, write ``eval_info.json`` and the videos, and return what was found."""
    groups = checked_groups(config)
    with process_lock(config.output / LOCK, wait=False) as is_mine:
        if not is_mine:
            raise ConfigError(
                f"another evaluation writes to {config.output}; wait for it or choose another --output_dir"
            )
        return _evaluate(config, groups, on_episode)


def _evaluate(
    config: EvaluationConfig,
    groups: dict[int, tuple[list[str], RolloutConfig]],
    on_episode: Callable[[EpisodeResult], None] | None,
) -> RolloutResult:
    episodes: list[EpisodeResult] = []
    finished = FinishedEpisodes(config.output, _identity(config))

    def note(result: EpisodeResult) -> None:
        finished.add(result)
        if on_episode is not None:
            on_episode(result)

    for number, (tasks, settings) in groups.items():
        load = functools.partial(
            load_rollout_policy,
            config.policy.path,
            config.seed,
            config.env.kind,
            number,
            config.policy.device,
            config.env.camera_names,
            settings.execute_steps,
        )
        known = finished.read()
        episodes += rollout(load, config.env.kind, tasks, list(config.seeds), settings, note, known).episodes
    result = RolloutResult(tuple(sorted(episodes, key=lambda episode: config.tasks.index(episode.task))))
    executed = dataclasses.replace(config.eval, n_action_steps=executed_steps(config))
    config = dataclasses.replace(config, eval=executed)
    write_evaluation(config.output / RESULTS_FILE, config, result, finished.seconds(result.episodes))
    finished.remove()
    return result


def _identity(config: EvaluationConfig) -> str:
    """What an episode's result depends on: the weights, and every setting but how many episodes and processes."""
    folder = pretrained_folder(checkpoint_folder(Path(config.policy.path))).resolve()
    weights = [file_identity(path) for path in sorted(folder.glob("*.safetensors"))]
    settings = dataclasses.asdict(config.eval) | {"n_episodes": None}
    chosen = dataclasses.asdict(config.env) | {"task": None}
    return fingerprint(weights, settings, chosen, config.seed, config.policy.device)


def executed_steps(config: EvaluationConfig) -> int:
    """How many actions of each chunk are executed."""
    length = read_policy_config(pretrained_folder(checkpoint_folder(Path(config.policy.path)))).chunk_length
    steps = config.eval.n_action_steps
    if steps is not None and steps > length:
        raise ConfigError(
            f"eval.n_action_steps is {steps} and the policy predicts {length} actions at a time; give {length} or less"
        )
    return min(8, length) if steps is None else steps


def rollout_config(config: EvaluationConfig, source: SourceRecord) -> RolloutConfig:
    """The same settings in the rollouts' own words."""
    return RolloutConfig(
        execute_steps=executed_steps(config),
        max_steps=config.env.max_steps,
        batch_size=config.eval.batch_size,
        num_processes=config.num_workers,
        cameras=cameras_of(
            config.policy.path,
            source,
            config.env.kind,
            config.env.image_size,
            config.env.camera_names,
            config.env.full_light,
        ),
        videos_per_task=config.videos,
        videos_dir=str(config.output / VIDEOS_FOLDER) if config.videos else None,
        initial_states=None if config.eval.initial_states is None else tuple(config.eval.initial_states),
    )


def success_by_suite(config: EvaluationConfig, result: RolloutResult) -> dict[str, Interval]:
    """The success rate of each suite of tasks, where the environment has suites."""
    kind = config.env.kind
    suites: dict[str, list[EpisodeResult]] = {}
    for episode in result.episodes:
        suite = kind.suite(episode.task)
        if suite is not None:
            suites.setdefault(suite, []).append(episode)
    return {suite: RolloutResult(tuple(episodes)).success for suite, episodes in suites.items()}


def write_evaluation(path: Path, config: EvaluationConfig, result: RolloutResult, seconds: float) -> None:
    """What was run and what came out: first the summary under LeRobot's names, then every episode."""
    num_episodes = len(result.episodes)
    record: dict[str, Any] = {
        "overall": {
            "pc_success": 100 * result.success.estimate,
            "n_episodes": num_episodes,
            "eval_s": seconds,
            "eval_ep_s": seconds / num_episodes,
            "video_paths": [episode.video for episode in result.episodes if episode.video is not None],
        },
        "config": dataclasses.asdict(config),
        "success_by_suite": {
            suite: dataclasses.asdict(success) for suite, success in success_by_suite(config, result).items()
        },
        **result.as_json(),
    }
    with atomic_file(path) as file:
        file.write((json.dumps(record, indent=1) + "\n").encode())


def _check_output(config: EvaluationConfig) -> None:
    """Refuse a folder that cannot be written, or that holds the results of another policy."""
    file = config.output / RESULTS_FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{file.parent} cannot be made ({error.strerror}); choose another --output_dir") from error
    if not os.access(file.parent, os.W_OK):
        raise ConfigError(f"{file.parent} cannot be written; choose another --output_dir")
    if file.is_file():
        before = _evaluated(file)
        if before is not None and not same_checkpoint(before, Path(config.policy.path)):
            raise ConfigError(f"{file.parent} holds the results of {before}; choose another --output_dir")


def _evaluated(file: Path) -> Path | None:
    """The policy that a file of results is about; None where it does not say."""
    try:
        return Path(read_json(file, "run the evaluation again")["config"]["policy"]["path"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def checked_groups(config: EvaluationConfig) -> dict[int, tuple[list[str], RolloutConfig]]:
    """The tasks that are met with each source's maps, and how; complaints come before any process is started."""
    if not config.policy.path:
        raise ConfigError("which policy? name its run or checkpoint folder: ptr eval --policy.path=FOLDER")
    folder = pretrained_folder(checkpoint_folder(Path(config.policy.path)))
    if not folder.is_dir():
        raise ConfigError(f"--policy.path={config.policy.path}: there is no such folder")
    sources = read_sources(folder)
    for task in config.tasks:
        check_max_steps(config.env.kind, task, config.env.max_steps)
        check_initial_states(config.env.kind, task, config.eval.initial_states)
    chosen = tasks_by_source(
        config.policy.path, sources, config.env.kind, config.tasks, config.policy.allow_other_robot
    )
    groups = {number: (tasks, rollout_config(config, sources[number])) for number, tasks in chosen.items()}
    _check_output(config)
    return groups
