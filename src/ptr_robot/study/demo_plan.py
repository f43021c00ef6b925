"""The demo's settings, and the stages they lead to: one collection, then a training and an evaluation a method."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ptr_robot.envs.collection import COLLECTION_VERSION, clean_operators
from ptr_robot.envs.registry import DEFAULT, environment_type
from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.eval.evaluation import EnvironmentFlags, EpisodeFlags, EvaluationConfig, PolicyFlags
from ptr_robot.method.scoring.config import SCREENING_VERSION, ScreeningConfig
from ptr_robot.study.engine.stages import Stage
from ptr_robot.study.training_runs import TrainingCommand

ENVIRONMENT = environment_type(DEFAULT)
BASELINE, UPPER_BOUND = "sft", "clean"
FAULTY_OPERATORS = {"fumbling": 2.0, "quitting": 2.0, "wandering": 1.0, "jittery": 1.0}
OPERATORS = (
    clean_operators(ENVIRONMENT.scripted.operators) | FAULTY_OPERATORS
)  # shares among the clean and among the faulty


@dataclass(frozen=True)
class Method:
    """One row of the demo's table."""

    name: str  # of its run folder
    title: str
    method: str  # of ptr train
    is_clean_only: bool = False


METHODS = (
    Method(BASELINE, "SFT", "sft"),
    Method("ptr-paper", "PTR (paper)", "paper"),
    Method("ptr-screened", "PTR (screened)", "screened"),
    Method(UPPER_BOUND, "SFT, clean part alone", "sft", is_clean_only=True),
)


@dataclass(frozen=True)
class DemoScale:
    """How much of everything."""

    tasks: tuple[str, ...]
    episodes_per_task: int
    camera_size: int
    image_size: int  # of what the policy is given
    steps: int
    batch_size: int  # segments
    num_chunks: int
    log_freq: int
    evaluation_episodes: int  # of each task
    max_steps: int
    fault_fraction: float = 0.6
    screening_steps: int = ScreeningConfig.steps


SCALES: dict[str, DemoScale] = {
    "full": DemoScale(("reach-v3", "coffee-push-v3", "drawer-open-v3"), 32, 96, 32, 800, 16, 2, 25, 30, 250),
    "smoke": DemoScale(("reach-v3",), 6, 32, 32, 6, 4, 2, 2, 2, 24, screening_steps=8),
}


@dataclass(frozen=True)
class DemoConfig:
    """Collect mixed-quality demonstrations, train SFT, PTR and the clean part, and compare: ptr demo."""

    # Where everything goes, and is found again.
    output_dir: str = "outputs/demo"
    # full, or smoke: as little as shows that everything works.
    scale: str = "full"
    # Of the collection and the trainings; every policy meets the same layouts, with the same noise, whatever it is.
    seed: int = 0
    # Processes that collect, train and evaluate side by side.
    num_workers: int = 2

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise ConfigError(f"there is no scale {self.scale!r}; {did_you_mean(self.scale, SCALES)}")
        if self.num_workers < 1:
            raise ConfigError(f"num_workers is {self.num_workers}; it must be at least 1")
        if self.seed < 0:
            raise ConfigError(f"seed is {self.seed}; it must be 0 or more")

    @property
    def sizes(self) -> DemoScale:
        """What the scale stands for."""
        return SCALES[self.scale]

    @property
    def root(self) -> Path:
        """Where everything goes."""
        return Path(self.output_dir).expanduser()


def collection_stage(config: DemoConfig) -> Stage:
    """The demonstrations."""
    sizes = config.sizes
    settings = {
        "tasks": sizes.tasks,
        "episodes_per_task": sizes.episodes_per_task,
        "camera_size": sizes.camera_size,
        "operators": OPERATORS,
        "fault_fraction": sizes.fault_fraction,
        "match_lengths": True,
        "collection": COLLECTION_VERSION,
        "seed": config.seed,
    }
    return Stage(config.root, "demonstrations", settings)


def training_stage(config: DemoConfig, method: Method) -> Stage:
    """A run of ``ptr train``. The flags that say where things lie are no settings: a folder may be moved."""
    flags = [flag for flag in training_flags(config, method, ()) if not flag.startswith(_PLACES)]
    settings: dict[str, Any] = {"flags": flags, "is_clean_only": method.is_clean_only}
    if "--method=screened" in flags:
        settings["screening_version"] = SCREENING_VERSION
    return Stage(config.root, f"runs/{method.name}", settings, (collection_stage(config),))


def evaluation_stage(config: DemoConfig, method: Method) -> Stage:
    """A run of ``ptr eval``."""
    evaluation = evaluation_config(config, method)
    settings = {"env": dataclasses.asdict(evaluation.env), "eval": dataclasses.asdict(evaluation.eval)}
    return Stage(
        config.root, f"evaluation/{method.name}", settings | {"seed": config.seed}, (training_stage(config, method),)
    )


_PLACES = ("--dataset.repo_id=", "--dataset.cache_dir=", "--output_dir=", "--dataset.robot=", "--dataset.episodes=")


def training_flags(config: DemoConfig, method: Method, good_episodes: Sequence[int]) -> tuple[str, ...]:
    """The flags of ``ptr train``: the same for every method but for the method itself and the episodes."""
    sizes = config.sizes
    flags = [
        f"--dataset.repo_id={config.root / 'demonstrations'}",
        f"--dataset.robot={ENVIRONMENT.robot_file(None)}",
        f"--dataset.state_key={ENVIRONMENT.study_state}",
        f"--dataset.num_chunks={sizes.num_chunks}",
        f"--dataset.cache_dir={config.root / 'cache'}",
        "--policy.preset=tiny",
        f"--policy.image_size={sizes.image_size}",
        "--policy.device=cpu",
        f"--method={method.method}",
        f"--steps={sizes.steps}",
        f"--batch_size={sizes.batch_size}",
        f"--log_freq={sizes.log_freq}",
        f"--save_freq={sizes.steps}",
        "--num_workers=0",
        f"--seed={config.seed}",
        f"--output_dir={config.root / 'runs' / method.name}",
    ]
    if method.is_clean_only:
        flags.append(f"--dataset.episodes=[{','.join(str(number) for number in good_episodes)}]")
    if method.method == "screened":
        flags.append(f"--screening.steps={sizes.screening_steps}")
    return tuple(flags)


def training_command(config: DemoConfig, method: Method, good_episodes: Sequence[int]) -> TrainingCommand:
    """One training as a command."""
    run = config.root / "runs" / method.name
    return TrainingCommand(method.name, run, config.sizes.steps, training_flags(config, method, good_episodes))


def evaluation_config(config: DemoConfig, method: Method) -> EvaluationConfig:
    """The settings of ``ptr eval``: the same layouts for every method."""
    sizes = config.sizes
    return EvaluationConfig(
        policy=PolicyFlags(str(config.root / "runs" / method.name)),
        env=EnvironmentFlags(task=",".join(sizes.tasks), image_size=sizes.camera_size, max_steps=sizes.max_steps),
        eval=EpisodeFlags(n_episodes=sizes.evaluation_episodes, n_action_steps=16),
        num_workers=config.num_workers,
        output_dir=str(config.root / "evaluation" / method.name),
    )
