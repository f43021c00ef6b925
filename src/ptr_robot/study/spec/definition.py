"""What a study is: data conditions, methods and seeds, and how each of their combinations is trained and evaluated."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ptr_robot.data.corruptions.kinds import Corruption, paper_corruptions
from ptr_robot.envs.base import CameraConfig, EnvironmentType
from ptr_robot.envs.collection import clean_operators, resolve_mixture
from ptr_robot.envs.registry import DEFAULT as DEFAULT_ENVIRONMENT
from ptr_robot.envs.registry import environment_type
from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.eval.rollouts import check_max_steps
from ptr_robot.method.scoring.config import ScreeningConfig
from ptr_robot.policy.vla.presets import PRESETS as POLICY_PRESETS
from ptr_robot.study.spec.method_row import MethodRow
from ptr_robot.study.spec.names import check_name
from ptr_robot.train.config import MAX_SEED

EPISODES_PER_SEED = 1000  # seeds of evaluation episodes that belong to one seed of a study


@dataclass(frozen=True)
class Demonstrations:
    """What is recorded, before any corruption."""

    # Evaluation episodes of each task.
    episodes: int = 40
    # Shares by name; unset: the environment's clean operators, alike.
    operators: dict[str, float] = field(default_factory=dict)
    # What the faulty operators have together; unset: as their shares say.
    fault_fraction: float | None = None
    # Clean and faulty episodes have lengths of the same distribution.
    match_lengths: bool = True
    # Camera images beside the states.
    images: bool = False
    # Pixels a side of what the camera gives.
    camera_size: int = 96

    def __post_init__(self) -> None:
        _at_least("demonstrations.episodes", self.episodes, 1)
        if self.fault_fraction is not None and not 0 <= self.fault_fraction <= 1:
            raise ConfigError(f"demonstrations.fault_fraction is {self.fault_fraction}; it must be 0 to 1")
        _within("demonstrations", lambda: CameraConfig((), self.camera_size))


@dataclass(frozen=True)
class CorruptionSettings:
    """One of the paper's corruptions, in the words of ``ptr corrupt``."""

    kind: str
    fraction: float | None = None
    sigma: float = 0.1
    noise_unit: str = "std"
    keep_from: float = 0.4
    keep_to: float = 0.7

    def __post_init__(self) -> None:
        self.corruptions()

    def corruptions(self) -> tuple[Corruption, ...]:
        """What the name stands for."""
        changes = {name: value for name, value in dataclasses.asdict(self).items() if name != "kind"}
        return paper_corruptions(self.kind, **changes)


@dataclass(frozen=True)
class Setting:
    """One data condition: what it changes in the study's demonstrations, and what is done to them afterwards."""

    title: str | None = None
    tasks: list[str] | None = None
    operators: dict[str, float] | None = None
    fault_fraction: float | None = None
    corruption: CorruptionSettings | None = None
    # Other settings whose datasets are the sources of this one, in place of demonstrations of its own.
    pool: list[str] = field(default_factory=list)
    # Robot map of the dataset; unset: the study's.
    robot: str | None = None
    # A factor on the study's training.steps.
    steps_factor: float = 1.0

    def __post_init__(self) -> None:
        own = ("tasks", "operators", "fault_fraction", "corruption", "robot")
        clash = next((name for name in own if getattr(self, name) is not None), None)
        if self.pool and clash:
            raise ConfigError(f"a setting that pools {', '.join(self.pool)} has no {clash} of its own")
        if not self.steps_factor > 0:
            raise ConfigError(f"steps_factor is {self.steps_factor}; it must be above 0")


@dataclass(frozen=True)
class PolicySettings:
    """The policy that every method trains from the same initial weights."""

    preset: str = "tiny-state"
    chunk_length: int = 16
    num_chunks: int = 2
    # Pixels that the policy is given; only for presets that look.
    image_size: int | None = None

    def __post_init__(self) -> None:
        if self.preset not in POLICY_PRESETS:
            hint = did_you_mean(self.preset, POLICY_PRESETS)
            raise ConfigError(f"policy.preset: there is no policy preset {self.preset!r}; {hint}")
        _at_least("policy.chunk_length", self.chunk_length, 1)
        _at_least("policy.num_chunks", self.num_chunks, 1)


@dataclass(frozen=True)
class TrainingSettings:
    """How much training every method gets: equal steps, equal batch."""

    steps: int = 2000
    # Segments of num_chunks chunks.
    batch_size: int = 32
    lr: float = 1e-3
    log_freq: int = 50

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "log_freq"):
            _at_least(f"training.{name}", getattr(self, name), 1)
        if not self.lr > 0:
            raise ConfigError(f"training.lr is {self.lr}; it must be above 0")


@dataclass(frozen=True)
class PretrainingSettings:
    """What the policy has learnt before the study's data: clean demonstrations of these tasks, by plain fine-tuning."""

    tasks: list[str]
    # Demonstrations of each task.
    episodes: int = 20
    steps: int = 4000
    # Segments of num_chunks chunks.
    batch_size: int = 32
    lr: float = 1e-3
    log_freq: int = 100
    # Seed of the demonstrations and the initial weights; all seeds of the study start from this one policy.
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.tasks:
            raise ConfigError("pretraining.tasks is empty; name at least one")
        for name in ("episodes", "steps", "batch_size", "log_freq"):
            _at_least(f"pretraining.{name}", getattr(self, name), 1)
        _at_least("pretraining.seed", self.seed, 0)
        if not self.lr > 0:
            raise ConfigError(f"pretraining.lr is {self.lr}; it must be above 0")


@dataclass(frozen=True)
class EvaluationSettings:
    """How every policy is evaluated: the same layouts for all methods of a seed, others for another seed."""

    # Of each task.
    episodes: int = 50
    # When an episode counts as failed; null: when the environment's own protocol says.
    max_steps: int | None = 300
    # Actions of a chunk that are executed before the policy looks again.
    n_action_steps: int = 8
    # Seed of the policy's noise; unset: the study's seed.
    sampling_seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("episodes", "n_action_steps"):
            _at_least(f"evaluation.{name}", getattr(self, name), 1)
        if self.episodes > EPISODES_PER_SEED:
            raise ConfigError(f"evaluation.episodes is {self.episodes}; a seed has {EPISODES_PER_SEED} layouts")
        if self.sampling_seed is not None:
            _at_least("evaluation.sampling_seed", self.sampling_seed, 0)


@dataclass(frozen=True)
class Study:
    """Settings x methods x seeds; every combination is a cell with a record of its own."""

    name: str
    question: str
    tasks: list[str]
    settings: dict[str, Setting]
    methods: list[MethodRow]
    # The environment's name, as in --env.type.
    env: str = DEFAULT_ENVIRONMENT
    seeds: list[int] = field(default_factory=lambda: [0])
    demonstrations: Demonstrations = field(default_factory=Demonstrations)
    policy: PolicySettings = field(default_factory=PolicySettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    # Of rows that screen.
    screening: ScreeningConfig = field(default_factory=ScreeningConfig)
    # Where every cell's policy comes from; unset: from initial weights of its seed.
    pretraining: PretrainingSettings | None = None
    # The method that differences are taken to, and the one that a perfect choice of episodes would reach.
    baseline: str = "sft"
    upper_bound: str = "clean"
    # Settings of PTR whose values are compared, dotted, by what tables call them; against the reference method.
    sweeps: dict[str, str] = field(default_factory=dict)
    sweep_reference: str = "paper"
    # Draw what training recorded over its steps.
    dynamics: bool = False

    def __post_init__(self) -> None:
        for name in ("tasks", "settings", "methods", "seeds"):
            if not getattr(self, name):
                raise ConfigError(f"{name} is empty; a study needs at least one")
        for seed in self.seeds:
            _at_least("a seed", seed, 0)
            if seed >= MAX_SEED:
                raise ConfigError(f"a seed is {seed}; it must be below 2 to the 63rd")
        _once("seeds", self.seeds)
        _once("methods", [row.name for row in self.methods])
        if self.evaluation.n_action_steps > self.policy.chunk_length:
            raise ConfigError(
                f"evaluation.n_action_steps is {self.evaluation.n_action_steps} and policy.chunk_length "
                f"{self.policy.chunk_length}; a policy executes no more than it predicts"
            )
        check_name("study", self.name)
        for name, setting in self.settings.items():
            check_name("setting", name)
            self._check_setting(name, setting)
        if self.pretraining is not None:
            _within("pretraining", lambda: self.environment_type.resolve_tasks(self.pretraining_tasks))
        names = [row.name for row in self.methods]
        if self.sweeps and self.sweep_reference not in names:
            hint = did_you_mean(self.sweep_reference, names)
            raise ConfigError(f"sweep_reference: {self.sweep_reference!r} is none of the methods; {hint}")

    @property
    def environment_type(self) -> EnvironmentType:
        """The environment that it names."""
        return environment_type(self.env)

    @property
    def pretraining_tasks(self) -> list[str]:
        """As the study writes them."""
        return [] if self.pretraining is None else self.pretraining.tasks

    def demonstrations_of(self, setting: Setting) -> Demonstrations:
        """The study's demonstrations with what the setting changes in them."""
        changes: dict[str, Any] = {}
        if setting.operators is not None:
            changes |= {"operators": setting.operators, "fault_fraction": None}
        if setting.fault_fraction is not None:
            changes["fault_fraction"] = setting.fault_fraction
        demonstrations = dataclasses.replace(self.demonstrations, **changes)
        operators = demonstrations.operators or clean_operators(self.environment_type.scripted.operators)
        return dataclasses.replace(demonstrations, operators=operators)

    def tasks_of(self, setting: Setting) -> tuple[str, ...]:
        """Full names of the tasks that the setting's data show."""
        if setting.pool:
            names = [task for part in setting.pool for task in self.tasks_of(self.settings[part])]
            return tuple(dict.fromkeys(names))
        return self.environment_type.resolve_tasks(self.tasks if setting.tasks is None else setting.tasks)

    def _check_setting(self, name: str, setting: Setting) -> None:
        kind = self.environment_type
        weighing = next((row.name for row in self.methods if row.weighting is not None), None)
        if setting.pool and weighing:
            raise ConfigError(
                f"settings.{name} pools several datasets and the method {weighing!r} weighs the episodes of one; "
                "take one of the two out"
            )
        for part in setting.pool:
            if part not in self.settings:
                raise ConfigError(f"settings.{name}.pool: no setting {part!r}; {did_you_mean(part, self.settings)}")
            if self.settings[part].pool:
                raise ConfigError(f"settings.{name}.pool: {part!r} pools others itself; name their settings")
        try:
            for task in self.tasks_of(setting):
                _within("evaluation", lambda: check_max_steps(kind, task, self.evaluation.max_steps))  # noqa: B023
            demonstrations = self.demonstrations_of(setting)
            resolve_mixture(demonstrations.operators, kind.scripted.operators, demonstrations.fault_fraction)
            if POLICY_PRESETS[self.policy.preset]().vision is not None and not demonstrations.images:
                raise ConfigError(
                    f"the policy {self.policy.preset!r} looks at images and demonstrations.images is false; "
                    "record them, or choose a preset for states"
                )
        except ConfigError as error:
            raise ConfigError(f"settings.{name}: {error}") from error


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ConfigError(f"{name} is {value}; it must be at least {least}")


def _within(place: str, build: Callable[[], object]) -> None:
    """Let the class that a setting is for complain about it, before anything runs."""
    try:
        build()
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _once(name: str, values: list[Any]) -> None:
    repeated = next((value for value in values if values.count(value) > 1), None)
    if repeated is not None:
        raise ConfigError(f"{name}: {repeated!r} stands there twice; name each once")
