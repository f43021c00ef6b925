"""Settings with an environment of their own, and datasets that were recorded elsewhere."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ptr_robot.envs import registry
from ptr_robot.envs.base import StepLimits
from ptr_robot.envs.metaworld.environment_type import MetaWorld
from ptr_robot.envs.registry import register_environment
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.study.spec.definition_file import read_study
from ptr_robot.study.spec.recorded_folder import recorded_folder
from tests.study.spec.test_definition import study_file

HASTY = {"env": "hasty", "evaluation": {"max_steps": None}}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> type[MetaWorld]:
    """Meta-World with little patience, as another environment."""

    class Hasty(MetaWorld):
        name, title = "hasty", "Hasty World"

        def step_limits(self, task: str) -> StepLimits:
            return StepLimits(usual=40, most=50)

        def task_title(self, task: str) -> str:
            return f"hasty {super().task_title(task)}"

    monkeypatch.setattr(registry, "_REGISTERED", {})
    return register_environment(Hasty)


def test_a_setting_may_name_its_environment(tmp_path: Path) -> None:
    settings = {"usual": {}, "hasty": {**HASTY, "tasks": ["push"], "evaluation": {"max_steps": 30}}}
    study = read_study(study_file(tmp_path, settings=settings, evaluation={"max_steps": 300}))
    usual, hasty = (study.settings[name] for name in settings)
    assert (study.env_of(usual), study.env_of(hasty)) == ("metaworld", "hasty")
    assert study.environment_of(hasty).title == "Hasty World"
    assert (study.evaluation_of(usual).max_steps, study.evaluation_of(hasty).max_steps) == (300, 30)
    assert study.evaluation_of(hasty).n_action_steps == study.evaluation.n_action_steps
    assert study.task_titles(usual) == {"reach-v3": "reach"}
    assert study.task_titles(hasty) == {"push-v3": "hasty push"}


def test_one_task_in_two_environments_has_two_titles(tmp_path: Path) -> None:
    study = read_study(study_file(tmp_path, settings={"usual": {}, "hasty": HASTY}))
    titles = {name: study.task_titles(setting)["reach-v3"] for name, setting in study.settings.items()}
    assert titles == {"usual": "reach", "hasty": "hasty reach"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"a": {"env": "hastyy"}}, "settings.a: there is no environment 'hastyy'; did you mean 'hasty'"),
        ({"a": {"env": "hasty"}}, "settings.a: evaluation: max_steps=300 is out of range; Hasty World allows 1 to 50"),
        ({"a": {**HASTY, "tasks": ["reech"]}}, "settings.a: there is no Meta-World task 'reech'"),
        ({"a": {"evaluation": {"max_step": 3}}}, "evaluation of a setting has no 'max_step'; did you mean 'max_steps'"),
        ({"a": {"evaluation": {"n_action_steps": None}}}, "evaluation.n_action_steps is null"),
        ({"a": {"evaluation": {"n_action_steps": 0}}}, "settings.a: evaluation.n_action_steps is 0"),
        ({"a": {"evaluation": {"n_action_steps": 17}}}, "settings.a: evaluation.n_action_steps is 17 and policy.chunk"),
        ({"a": {}, "b": {"pool": ["a"], "env": "hasty"}}, "pools a has no env of its own"),
        (
            {"a": {}, "b": HASTY, "c": {"pool": ["a", "b"]}},
            "settings.c pools the task 'reach-v3' of two environments or with two evaluations",
        ),
        (
            {"a": {}, "b": {"evaluation": {"max_steps": 3}}, "c": {"pool": ["a", "b"]}},
            "settings.c pools the task 'reach-v3' of two environments or with two evaluations",
        ),
        ({"a": {}, "c": {"pool": ["a", "a"]}}, r"settings.c.pool: 'a' stands there twice"),
        ({"a": {}, "c": {"pool": ["a"], "shares": [1, 2]}}, r"shares is \[1.*2.*\]; give one number above 0 for each"),
        ({"a": {}, "c": {"pool": ["a"], "shares": [0]}}, r"shares is \[0.*\]; give one number above 0 for each"),
        ({"a": {"shares": [1]}}, r"shares is \[1.*\]; give one number above 0 for each"),
        ({"a": {"dataset": "here", "steps_factor": 2.0}}, "steps_factor is of a setting that trains"),
        ({"a": {"dataset": ""}}, "dataset is empty"),
        ({"a": {"dataset": "here", "tasks": ["pusch"]}}, "settings.a: there is no Meta-World task 'pusch'"),
        ({"a": {"dataset": "here", "operators": {"brisk": 1}}}, "recorded elsewhere has no operators of its own"),
        ({"a": {"dataset": "here", "env": "hasty"}}, "env is set and tasks is not; name the tasks"),
        ({"a": {"dataset": "here", "evaluation": {"max_steps": 3}}}, "evaluation is set and tasks is not"),
        (
            {"a": {"dataset": "here", "tasks": ["push"], "evaluation": {"max_steps": 900}}},
            "settings.a: evaluation: max_steps=900 is out of range",
        ),
        ({"a": {"state_key": "observation.state"}}, "state_key is of a setting with a dataset"),
        (
            {"a": {}, "b": {"dataset": "here"}},
            "settings.b is a recorded dataset without tasks, on which nothing can be evaluated",
        ),
        ({"b": {"dataset": "here"}, "c": {"pool": ["b"]}}, "settings.c pools recorded datasets alone"),
        (
            {"a": {}, "b": {"dataset": "here", "robot": "g2"}, "c": {"pool": ["a", "b"]}},
            "settings.b: there is no robot 'g2'",
        ),
    ],
)
def test_mistakes_are_one_line_with_their_place(settings: dict, words: str, tmp_path: Path) -> None:
    path = study_file(tmp_path, settings=settings)
    with pytest.raises(ConfigError, match=words) as caught:
        read_study(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(path)


def test_a_recorded_dataset_by_itself_is_refused(tmp_path: Path) -> None:
    settings = {"a": {}, "g1": {"dataset": "here"}, "both": {"pool": ["a", "g1"]}}
    path = study_file(tmp_path, settings=settings)
    assert sorted(read_study(path).evaluated_settings) == ["a", "both"]
    assert list(read_study(path, {"settings": ["a"]}).settings) == ["a"]
    assert sorted(read_study(path, {"settings": ["both"]}).settings) == ["a", "both", "g1"]
    with pytest.raises(ConfigError, match=r"settings\.g1 is a recorded dataset without tasks, on which nothing"):
        read_study(path, {"settings": ["g1"]})


def test_a_variable_may_hold_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTR_ROBOT_MINE", str(tmp_path))
    with pytest.raises(DataError, match=r"PTR_ROBOT_MINE.*has no meta/info.json; give the folder"):
        recorded_folder("${PTR_ROBOT_MINE}")
    (tmp_path / "meta").mkdir()
    (tmp_path / "meta/info.json").write_text("{}")
    assert recorded_folder("${PTR_ROBOT_MINE}") == recorded_folder(str(tmp_path)) == tmp_path
    monkeypatch.delenv("PTR_ROBOT_MINE")
    with pytest.raises(DataError, match="this variable is not set; give the folder"):
        recorded_folder("${PTR_ROBOT_MINE}")
    with pytest.raises(ConfigError, match="write a folder, or a variable alone"):
        recorded_folder("${HOME}/mine")
    with pytest.raises(DataError, match=r"has no meta/info\.json"):
        recorded_folder("/not/here")


@pytest.mark.skipif(importlib.util.find_spec("libero") is None, reason="hf-libero is not installed (make libero)")
def test_three_embodiments_are_evaluated_where_there_is_a_simulator() -> None:
    for scale in ("full", "smoke"):
        study = read_study("embodiments", scale=scale)
        assert study.evaluated_settings == ("metaworld", "libero", "pooled")
        evaluations = {name: study.evaluation_of(study.settings[name]) for name in ("metaworld", "libero")}
        assert [evaluation.n_action_steps for evaluation in evaluations.values()] == [8, 4]
        tasks = [task for name in evaluations for task in study.tasks_of(study.settings[name])]
        assert list(study.tasks_of(study.settings["pooled"])) == tasks
        assert study.settings["pooled"].steps_factor == len(study.settings["pooled"].pool)
    with pytest.raises(ConfigError, match=r"embodiments: settings\.pooled pools several datasets"):
        read_study("embodiments", {"methods": ["sft", "true-labels"]})
