"""Study files: what they say is what runs, flags win over them, and every mistake is one line that names its place."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml

from ptr_robot.errors import ConfigError
from ptr_robot.study.cells.data_jobs import CollectJob, CorruptJob
from ptr_robot.study.cells.plan import plan_cells
from ptr_robot.study.engine.jobs import with_needed
from ptr_robot.study.spec.definition_file import built_in_studies, read_study
from ptr_robot.study.spec.methods import REGISTRY

MINIMAL = {
    "name": "mine",
    "question": "Does it?",
    "tasks": ["reach"],
    "settings": {"clean": {}, "ln": {"corruption": {"kind": "ln"}, "tasks": ["reach", "push"]}},
    "methods": ["sft", {"name": "bold", "method": "paper", "ptr": {"weights": {"w_max": 8.0}}}],
}


def study_file(folder: Path, **changes) -> str:
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, **changes}))
    return str(path)


@pytest.mark.parametrize("name", list(built_in_studies()))
def test_built_in_studies_can_be_planned(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g1" / "meta").mkdir(parents=True)
    (tmp_path / "g1" / "meta" / "info.json").write_text("{}")
    monkeypatch.setenv("PTR_ROBOT_G1_DATASET", str(tmp_path / "g1"))
    if name in ("libero", "embodiments") and importlib.util.find_spec("libero") is None:
        pytest.skip("hf-libero is not installed (make libero)")
    study = read_study(name)
    cells = plan_cells(study, tmp_path)
    assert study.name == name
    assert len(cells) == len(study.evaluated_settings) * len(study.methods) * len(study.seeds)
    assert len({cell.identity for cell in cells}) == len({cell.key for cell in cells}) == len(cells)


def test_the_smallest_file_is_enough(tmp_path: Path) -> None:
    study = read_study(study_file(tmp_path))
    assert [row.name for row in study.methods] == ["sft", "bold"]
    assert study.methods[1].ptr_config(steps=10, log_freq=1).weights.w_max == 8.0
    assert study.tasks_of(study.settings["ln"]) == ("reach-v3", "push-v3")
    assert study.seeds == [0]


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    overrides = {"seeds": [3], "methods": ["bold", "clean"], "settings": ["ln"], "training": {"steps": 7}}
    study = read_study(study_file(tmp_path, training={"steps": 5, "lr": 0.1}), overrides)
    assert study.seeds == [3]
    assert [row.name for row in study.methods] == ["bold", "clean"]
    assert list(study.settings) == ["ln"]
    assert (study.training.steps, study.training.lr) == (7, 0.1)


def test_settings_share_demonstrations_and_seeds_do_not(tmp_path: Path) -> None:
    settings = {kind: {"corruption": {"kind": kind}} for kind in ("tt", "ln")} | {"plain": {}}
    study = read_study(study_file(tmp_path, settings=settings, tasks=["reach", "push"]), {"seeds": [0, 1]})
    jobs = with_needed(plan_cells(study, tmp_path))
    collections = [job for job in jobs if isinstance(job, CollectJob)]
    assert sorted(job.seed for job in collections) == [0, 1]
    assert len([job for job in jobs if isinstance(job, CorruptJob)]) == 4
    done: set[str] = set()
    for job in jobs:
        assert all(needed.key in done for needed in job.after)
        done.add(job.key)


def test_a_setting_changes_only_what_it_names(tmp_path: Path) -> None:
    setting = {"operators": {"steady": 1, "jittery": 1}, "fault_fraction": 0.25}
    study = read_study(
        study_file(tmp_path, settings={"a": setting, "b": {}}, demonstrations={"episodes": 3, "match_lengths": False})
    )
    changed, plain = (study.demonstrations_of(study.settings[name]) for name in "ab")
    assert changed.operators == setting["operators"]
    assert (changed.fault_fraction, changed.episodes, changed.match_lengths) == (0.25, 3, False)
    assert "jittery" not in plain.operators


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seedz": [1]}, "there is no 'seedz'; did you mean 'seeds'"),
        ({"training": {"step": 1}}, "training: there is no 'step'; did you mean 'steps'"),
        ({"training": {"steps": "many"}}, "training.steps: .*many"),
        ({"training": {"steps": 0}}, "training.steps is 0; it must be at least 1"),
        ({"evaluation": {"n_action_steps": 17}}, "n_action_steps is 17 and policy.chunk_length 16"),
        ({"settings": {"a": {"operator": {}}}}, "settings.a: there is no 'operator'; did you mean 'operators'"),
        (
            {"settings": {"a": {"operators": {"stedy": 1}}}},
            "settings.a: there is no operator 'stedy'; did you mean 'st",
        ),
        ({"settings": {"a": {"corruption": {"kind": "tl"}}}}, "there is no corruption 'tl'"),
        ({"settings": {"a": {"fault_fraction": 0.5}}}, "settings.a: fault_fraction=0.5 needs a faulty operator"),
        ({"settings": {"a": {"pool": ["b"]}}}, "settings.a.pool: no setting 'b'"),
        ({"settings": {"a": {"pool": ["a"], "tasks": ["push"]}}}, "pools a has no tasks of its own"),
        ({"settings": {}}, "settings is empty"),
        (
            {"settings": {"a": {}, "b": {"pool": ["a"]}}, "methods": ["weight-knn"]},
            "settings.b pools several datasets and the method 'weight-knn' weighs",
        ),
        ({"tasks": ["reech"]}, "there is no Meta-World task 'reech'"),
        ({"evaluation": {"max_steps": 600}}, "evaluation: max_steps=600 is out of range"),
        ({"demonstrations": {"camera_size": 8}}, "demonstrations: image_size=8 is out of range"),
        ({"demonstrations": {"fault_fraction": 3}}, "demonstrations.fault_fraction is 3.*; it must be 0 to 1"),
        ({"settings": {"a": {"robot": "metawrld"}}}, "settings.a: there is no robot 'metawrld'"),
        ({"baseline": "sftt"}, "baseline: no method 'sftt'; did you mean 'sft'"),
        (
            {"sweeps": {"b": "weights.betta"}, "sweep_reference": "bold"},
            "sweeps.b: 'weights.betta' is no number among PTR's settings; did you mean 'weights.beta'",
        ),
        (
            {"sweeps": {"b": "weights.map"}, "sweep_reference": "bold"},
            "sweeps.b: 'weights.map' is no number among PTR's settings",
        ),
        ({"methods": [1, "sft"]}, "methods: 1 is neither a method's name nor a row"),
        (
            {"methods": [{"name": "a", "method": "paper", "ptr": {"weights": {"alpha": "x"}}}]},
            "a: ptr.weights.alpha is 'x'; it must be a number",
        ),
        (
            {"methods": [{"name": "a", "method": "paper", "ptr": {"weights": {"alpha": None}}}]},
            "alpha is None; it must be",
        ),
        ({"methods": ["stf"]}, "there is no method 'stf'; did you mean 'sft'"),
        ({"methods": ["sft", "sft"]}, "methods: 'sft' stands there twice"),
        ({"methods": "sft"}, "methods must be a list"),
        ({"methods": [{"name": "a", "method": "papr"}]}, "a: there is no method 'papr'; did you mean 'paper'"),
        (
            {"methods": [{"name": "a", "ptr": {"weights": {"w_max": 8.0}}}]},
            "a: ptr.weights.w_max would change nothing: the method 'sft' scores nothing",
        ),
        ({"seeds": [2**63]}, "seeds is a number beyond 9223372036854775807"),
        ({"training": {"steps": 10**23}}, "training.steps is a number beyond 1000000000"),
        ({"policy": {"preset": "tiny"}}, "the policy 'tiny' looks at images and demonstrations.images is false"),
        ({"methods": [{"name": "a", "ptr": {"weight": {}}}]}, "a: ptr has no setting 'weight'; did you mean 'weights'"),
        ({"methods": [{"name": "a", "ptr": {"weights": 3}}]}, "ptr.weights is a group of settings"),
        ({"methods": [{"name": "a", "ptr": {"weights": {"w_max": 0.5}}}]}, "a: weights.w_max is 0.5"),
        ({"methods": [{"name": "a", "filter": {"by": "lenght"}}]}, "no rule 'lenght'; did you mean 'length'"),
        ({"methods": [{"name": "a/b"}]}, "must be made of letters"),
        ({"policy": {"preset": "tiny-sate"}}, "no policy preset 'tiny-sate'; did you mean 'tiny-state'"),
        ({"sweeps": {"x": "weights.beta"}}, "sweep_reference: 'paper' is none of the methods"),
        ({"seeds": [1, 1]}, "seeds: 1 stands there twice"),
        ({"seeds": [-1]}, "a seed is -1"),
    ],
)
def test_mistakes_are_one_line_with_their_place(changes: dict, words: str, tmp_path: Path) -> None:
    path = study_file(tmp_path, **changes)
    with pytest.raises(ConfigError, match=words) as caught:
        read_study(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(path)


@pytest.mark.parametrize(
    ("source", "words"),
    [("coruption", "did you mean 'corruption'"), ("none.yaml", "no such study file")],
)
def test_a_study_that_is_not_there(source: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_study(source)


@pytest.mark.parametrize("content", ["[1, 2]", "a: [", "\x00"])
def test_a_file_that_is_no_study(content: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"broken\.yaml"):
        read_study(str(path))


def test_a_mistake_among_flags_is_not_the_built_in_files() -> None:
    with pytest.raises(ConfigError, match=r"^headline: training\.steps is 0"):
        read_study("headline", {"training": {"steps": 0}})


def test_unknown_names_among_flags(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    with pytest.raises(ConfigError, match="no setting 'cleen'; did you mean 'clean'"):
        read_study(path, {"settings": ["cleen"]})
    with pytest.raises(ConfigError, match="no method 'bald'; did you mean 'bold'"):
        read_study(path, {"methods": ["bald"]})


def test_every_control_is_a_row() -> None:
    wanted = {
        "sft",
        "sft-belief",
        "aux-only",
        "placebo",
        "paper",
        "small-data",
        "clean",
        "clean-ptr",
        "true-labels",
        "true-labels-zero",
    }
    wanted |= {f"{kind}-{rule}" for kind in ("filter", "weight") for rule in ("action-error", "knn", "length", "jerk")}
    assert wanted <= set(REGISTRY)
    assert all(name == row.name for name, row in REGISTRY.items())


def test_a_scale_stands_in_place_of_the_files_values() -> None:
    full, smoke = read_study("demo"), read_study("demo", scale="smoke")
    assert read_study("demo", scale="full") == full
    assert (smoke.training.steps, smoke.evaluation.episodes) == (6, 2)
    assert (smoke.policy, smoke.methods) == (full.policy, full.methods)
    assert read_study("demo", {"training": {"steps": 4}}, "smoke").training.steps == 4
    with pytest.raises(ConfigError, match="demo has no scale 'smok'; did you mean 'smoke'"):
        read_study("demo", scale="smok")
    with pytest.raises(ConfigError, match="headline has no scale 'smoke'"):
        read_study("headline", scale="smoke")


def test_a_study_names_its_environment() -> None:
    assert read_study("headline").environment_type.title == "Meta-World"
    with pytest.raises(ConfigError, match="no environment 'metawurld'; did you mean 'metaworld'"):
        read_study("headline", {"env": "metawurld"})
