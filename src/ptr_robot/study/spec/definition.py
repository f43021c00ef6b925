"""What a study is: data conditions, methods and seeds, and how each of their combinations is trained and evaluated."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from ptr_robot.envs.base import CameraConfig, EnvironmentType
from ptr_robot.envs.collection import clean_operators
from ptr_robot.envs.registry import DEFAULT as DEFAULT_ENVIRONMENT
from ptr_robot.envs.registry import environment_type
from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.method.scoring.config import ScreeningConfig
from ptr_robot.policy.vla.presets import PRESETS as POLICY_PRESETS
from ptr_robot.study.spec.checks import at_least, once, within
from ptr_robot.study.spec.method_row import MethodRow
from ptr_robot.study.spec.names import check_name
from ptr_robot.study.spec.setting import Setting
from ptr_robot.study.spec.setting_checks import check_executed, check_setting
from ptr_robot.train.config import MAX_SEED

# What version 0.1 did not have.
_LATER = ("sampling_seed",)
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
        at_least("demonstrations.episodes", self.episodes, 1)
        if self.fault_fraction is not None and not 0 <= self.fault_fraction <= 1:
            raise ConfigError(f"demonstrations.fault_fraction is {self.fault_fraction}; it must be 0 to 1")
        within("demonstrations", lambda: CameraConfig((), self.camera_size))


@dataclass(frozen=True)
class PolicySettings:
    """The policy that every method trains from the same initial weights."""

    preset: str = "tiny-state"
    chunk_length: int = 16
    num_chunks: int = 2
    # Pixels that the policy is given; only for presets that look.
    image_size: int | None = None
    # Whether h_t, the context that PTR scores by, has read the state: not in the paper. The same for all rows, and for
    # the policy that they start from.
    context_sees_state: bool = False

    def __post_init__(self) -> None:
        if self.preset not in POLICY_PRESETS:
            hint = did_you_mean(self.preset, POLICY_PRESETS)
            raise ConfigError(f"policy.preset: there is no policy preset {self.preset!r}; {hint}")
        at_least("policy.chunk_length", self.chunk_length, 1)
        at_least("policy.num_chunks", self.num_chunks, 1)


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
            at_least(f"training.{name}", getattr(self, name), 1)
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
            at_least(f"pretraining.{name}", getattr(self, name), 1)
        at_least("pretraining.seed", self.seed, 0)
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
            at_least(f"evaluation.{name}", getattr(self, name), 1)
        if self.episodes > EPISODES_PER_SEED:
            raise ConfigError(f"evaluation.episodes is {self.episodes}; a seed has {EPISODES_PER_SEED} layouts")
        if self.sampling_seed is not None:
            at_least("evaluation.sampling_seed", self.sampling_seed, 0)


def by_value(settings: PolicySettings | EvaluationSettings) -> dict[str, Any]:
    """What a cell is known by; later settings only where they are set, so that earlier results are found."""
    fields = dataclasses.asdict(settings)
    return {name: value for name, value in fields.items() if name not in _LATER or value is not None}


@dataclass(frozen=True)
class Study:
    """Settings x methods x seeds; every combination is a cell with a record of its own."""

    name: str
    question: str
    tasks: list[str]
    settings: dict[str, Setting]
    methods: list[MethodRow]
    # The environment's name, as in --env.type, of settings that name none.
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
            at_least("a seed", seed, 0)
            if seed >= MAX_SEED:
                raise ConfigError(f"a seed is {seed}; it must be below 2 to the 63rd")
        once("seeds", self.seeds)
        once("methods", [row.name for row in self.methods])
        check_executed(self, self.evaluation)
        check_name("study", self.name)
        for name, setting in self.settings.items():
            check_name("setting", name)
            check_setting(self, name, setting)
        if self.pretraining is not None:
            within("pretraining", lambda: self.environment_type.resolve_tasks(self.pretraining_tasks))
        names = [row.name for row in self.methods]
        if self.sweeps and self.sweep_reference not in names:
            hint = did_you_mean(self.sweep_reference, names)
            raise ConfigError(f"sweep_reference: {self.sweep_reference!r} is none of the methods; {hint}")

    @property
    def environment_type(self) -> EnvironmentType:
        """The environment of settings that name none."""
        return environment_type(self.env)

    @property
    def evaluated_settings(self) -> tuple[str, ...]:
        """The settings with policies of their own: all but recorded datasets without tasks."""
        return tuple(name for name, setting in self.settings.items() if setting.is_evaluated)

    @property
    def pretraining_tasks(self) -> list[str]:
        """As the study writes them."""
        return [] if self.pretraining is None else self.pretraining.tasks

    def env_of(self, setting: Setting) -> str:
        """The name of the environment that the setting's data are of."""
        return self.env if setting.env is None else setting.env

    def environment_of(self, setting: Setting) -> EnvironmentType:
        """That environment."""
        return environment_type(self.env_of(setting))

    def evaluation_of(self, setting: Setting) -> EvaluationSettings:
        """The study's evaluation with what the setting's environment has otherwise."""
        changes: dict[str, Any] = setting.evaluation
        return dataclasses.replace(self.evaluation, **changes)

    def robot_file_of(self, setting: Setting) -> str | None:
        """The robot map of the setting's data; None: the one that a recorded dataset's robot_type names."""
        return setting.robot if setting.is_recorded else self.environment_of(setting).robot_file(setting.robot)

    def demonstrations_of(self, setting: Setting) -> Demonstrations:
        """The study's demonstrations with what the setting changes in them."""
        changes: dict[str, Any] = {}
        if setting.operators is not None:
            changes |= {"operators": setting.operators, "fault_fraction": None}
        if setting.fault_fraction is not None:
            changes["fault_fraction"] = setting.fault_fraction
        demonstrations = dataclasses.replace(self.demonstrations, **changes)
        operators = demonstrations.operators or clean_operators(self.environment_of(setting).scripted.operators)
        return dataclasses.replace(demonstrations, operators=operators)

    def tasks_of(self, setting: Setting) -> tuple[str, ...]:
        """Full names of the tasks that its policies are evaluated on; none where nobody has a simulator."""
        if setting.pool:
            names = [task for part in setting.pool for task in self.tasks_of(self.settings[part])]
            return tuple(dict.fromkeys(names))
        if not setting.is_evaluated:
            return ()
        return self.environment_of(setting).resolve_tasks(self.tasks if setting.tasks is None else setting.tasks)

    def task_titles(self, setting: Setting) -> dict[str, str]:
        """What tables call each of its tasks; two settings may have one name for the tasks of two environments."""
        parts = [self.settings[part] for part in setting.pool] or [setting]
        return {task: self.environment_of(part).task_title(task) for part in parts for task in self.tasks_of(part)}
