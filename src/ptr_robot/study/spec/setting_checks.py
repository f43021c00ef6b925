"""Whether a study's settings can be run: their tasks, operators and limits, and what is pooled with what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptr_robot.envs.collection import resolve_mixture
from ptr_robot.errors import ConfigError, did_you_mean
from ptr_robot.eval.rollouts import check_max_steps
from ptr_robot.policy.vla.presets import PRESETS as POLICY_PRESETS
from ptr_robot.study.spec.checks import once, within
from ptr_robot.study.spec.setting import Setting

if TYPE_CHECKING:
    from ptr_robot.study.spec.definition import EvaluationSettings, Study


def check_setting(study: Study, name: str, setting: Setting) -> None:
    """Refuse what would only fail after hours."""
    if setting.pool:
        _check_pool(study, name, setting)
    elif setting.is_recorded:
        _check_recorded(study, name, setting)
    else:
        within(f"settings.{name}", lambda: _check_own(study, setting))


def check_executed(study: Study, evaluation: EvaluationSettings) -> None:
    """A chunk has as many actions as it has."""
    if evaluation.n_action_steps > study.policy.chunk_length:
        raise ConfigError(
            f"evaluation.n_action_steps is {evaluation.n_action_steps} and policy.chunk_length "
            f"{study.policy.chunk_length}; a policy executes no more than it predicts"
        )


def _check_own(study: Study, setting: Setting) -> None:
    """Demonstrations of its own: of which tasks, by whom, and until when a policy may try them."""
    kind, evaluation = study.environment_of(setting), study.evaluation_of(setting)
    check_executed(study, evaluation)
    for task in study.tasks_of(setting):
        within("evaluation", lambda: check_max_steps(kind, task, evaluation.max_steps))  # noqa: B023
    if setting.is_recorded:
        return
    demonstrations = study.demonstrations_of(setting)
    resolve_mixture(demonstrations.operators, kind.scripted.operators, demonstrations.fault_fraction)
    if POLICY_PRESETS[study.policy.preset]().vision is not None and not demonstrations.images:
        raise ConfigError(
            f"the policy {study.policy.preset!r} looks at images and demonstrations.images is false; "
            "record them, or choose a preset for states"
        )


def _check_recorded(study: Study, name: str, setting: Setting) -> None:
    if setting.is_evaluated:
        within(f"settings.{name}", lambda: _check_own(study, setting))
    elif not any(name in other.pool for other in study.settings.values()):
        raise ConfigError(
            f"settings.{name} is a recorded dataset without tasks, on which nothing can be evaluated; name tasks of an "
            "environment, or pool it with another setting"
        )


def _check_pool(study: Study, name: str, setting: Setting) -> None:
    weighing = next((row.name for row in study.methods if row.weighting is not None), None)
    if weighing:
        raise ConfigError(
            f"settings.{name} pools several datasets and the method {weighing!r} weighs the episodes of one; "
            "take one of the two out"
        )
    once(f"settings.{name}.pool", setting.pool)
    for part in setting.pool:
        if part not in study.settings:
            raise ConfigError(f"settings.{name}.pool: no setting {part!r}; {did_you_mean(part, study.settings)}")
        if study.settings[part].pool:
            raise ConfigError(f"settings.{name}.pool: {part!r} pools others itself; name their settings")
    if not any(study.settings[part].is_evaluated for part in setting.pool):
        raise ConfigError(
            f"settings.{name} pools recorded datasets alone, on which nothing can be evaluated; "
            "add a setting with an environment"
        )
    _check_task_names(study, name, setting)


def _check_task_names(study: Study, name: str, setting: Setting) -> None:
    """Results are kept by task, so that a name must mean one task, evaluated in one way."""
    known: dict[str, tuple[str, EvaluationSettings]] = {}
    for part in setting.pool:
        own = study.settings[part]
        protocol = study.env_of(own), study.evaluation_of(own)
        for task in within(f"settings.{part}", lambda: study.tasks_of(own)):  # noqa: B023
            if known.setdefault(task, protocol) != protocol:
                raise ConfigError(
                    f"settings.{name} pools the task {task!r} of two environments or with two evaluations; "
                    "leave one of them out"
                )
