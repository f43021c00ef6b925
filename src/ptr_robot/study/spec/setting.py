"""One data condition of a study: what it changes in the study's demonstrations, or which datasets it takes instead."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ptr_robot.data.corruptions.kinds import Corruption, paper_corruptions
from ptr_robot.errors import ConfigError, did_you_mean

OWN_EVALUATION = ("max_steps", "n_action_steps")  # what an environment's protocol may have otherwise than the study's
_ONLY_RECORDED = ("state_key",)
_NOT_RECORDED = ("operators", "fault_fraction", "pool")
_WITH_TASKS = ("env", "evaluation")  # which a recorded dataset has only where its policies are evaluated
_NOT_POOLED = ("env", "tasks", "operators", "fault_fraction", "corruption", "evaluation", "robot", "state_key")


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
    """One data condition: demonstrations of its own, a dataset recorded elsewhere, or several settings pooled."""

    title: str | None = None
    # The environment's name, as in --env.type; unset: the study's.
    env: str | None = None
    tasks: list[str] | None = None
    operators: dict[str, float] | None = None
    fault_fraction: float | None = None
    corruption: CorruptionSettings | None = None
    # Of the study's evaluation, max_steps and n_action_steps where the environment's protocol has others.
    evaluation: dict[str, int | None] = field(default_factory=dict)
    # Folder of a LeRobot dataset in place of demonstrations, or ${PTR_ROBOT_...}, a variable that holds it. Nothing is
    # known of its episodes but how they are corrupted here. Policies are evaluated on the tasks that the setting names;
    # where it names none, nobody has a simulator, and it is a source of settings that pool it.
    dataset: str | None = None
    # The vector of that dataset that holds the states; unset: LeRobot's own.
    state_key: str | None = None
    # Other settings whose datasets are the sources of this one, in place of demonstrations of its own.
    pool: list[str] = field(default_factory=list)
    # Their shares of the samples that are trained on, in the same order; unset: the shares of their segments.
    shares: list[float] = field(default_factory=list)
    # Robot map of the dataset; unset: the environment's, or the one that a recorded dataset's robot_type names.
    robot: str | None = None
    # A factor on the study's training.steps.
    steps_factor: float = 1.0

    def __post_init__(self) -> None:
        if self.pool:
            self._refuse(_NOT_POOLED, f"a setting that pools {', '.join(self.pool)} has no {{name}} of its own")
        if self.shares and (len(self.shares) != len(self.pool) or not all(share > 0 for share in self.shares)):
            raise ConfigError(f"shares is {self.shares}; give one number above 0 for each setting of pool")
        if self.is_recorded:
            self._refuse(_NOT_RECORDED, "a setting with a dataset that was recorded elsewhere has no {name} of its own")
        else:
            self._refuse(_ONLY_RECORDED, "{name} is of a setting with a dataset; this one has none")
        for name, value in self.evaluation.items():
            if name not in OWN_EVALUATION:
                raise ConfigError(f"evaluation of a setting has no {name!r}; {did_you_mean(name, OWN_EVALUATION)}")
            if value is None and name != "max_steps":
                raise ConfigError(f"evaluation.{name} is null; give it a number, or take it out")
        if self.is_recorded and not self.is_evaluated:
            self._refuse(_WITH_TASKS, "{name} is set and tasks is not; name the tasks to evaluate on")
            if self.steps_factor != 1.0:
                raise ConfigError("steps_factor is of a setting that trains; a dataset without tasks is a source")
        if self.dataset == "":
            raise ConfigError("dataset is empty; give the folder of a LeRobot dataset")
        if not self.steps_factor > 0:
            raise ConfigError(f"steps_factor is {self.steps_factor}; it must be above 0")

    @property
    def is_recorded(self) -> bool:
        """Whether it is a dataset that was there before the study."""
        return self.dataset is not None

    @property
    def is_evaluated(self) -> bool:
        """Whether policies of it are tried: not where only recordings are, and no task."""
        return not self.is_recorded or bool(self.tasks)

    def _refuse(self, names: tuple[str, ...], complaint: str) -> None:
        """Complain of the first of these fields that is set."""
        given = next((name for name in names if getattr(self, name) not in (None, [], {})), None)
        if given is not None:
            raise ConfigError(complaint.format(name=given))
