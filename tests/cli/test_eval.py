"""``ptr eval`` on a small saved policy in the real simulator."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ptr_robot.cli.main import run
from ptr_robot.errors import ConfigError
from ptr_robot.eval.evaluation import EvaluationConfig, PolicyFlags
from ptr_robot.eval.results import read_results
from ptr_robot.eval.success_statistics import wilson_interval
from ptr_robot.files import process_lock
from tests.study.conftest import make_trained, save_run


def flags(run_folder: Path, output: Path, *more: str) -> list[str]:
    return [
        "eval",
        f"--policy.path={run_folder}",
        "--env.task=reach,push",
        "--env.image_size=32",
        "--env.max_steps=12",
        "--eval.n_episodes=2",
        "--seed=5",
        f"--output_dir={output}",
        *more,
    ]


@pytest.fixture(scope="module")
def saved_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_run(make_trained(), tmp_path_factory.mktemp("eval") / "run")


@pytest.fixture(scope="module")
def evaluated(saved_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("eval")
    assert run(flags(saved_run, output, "--num_workers=1", "--videos=1")) == 0
    return output


def test_the_file_says_what_was_run_and_what_came_out(evaluated: Path) -> None:
    record = json.loads((evaluated / "eval_info.json").read_text())
    assert record["overall"]["n_episodes"] == 4
    assert record["config"]["seed"] == 5
    assert record["config"]["eval"]["n_action_steps"] == 4  # the whole chunk: it has less than 8
    num_successes = sum(episode["is_success"] for episode in record["episodes"])
    assert record["overall"]["pc_success"] == 100 * num_successes / 4
    interval = wilson_interval(num_successes, 4)
    assert (record["success"]["low"], record["success"]["high"]) == (interval.low, interval.high)
    assert [(e["task"], e["seed"]) for e in record["episodes"]] == [
        (task, seed) for task in ("reach-v3", "push-v3") for seed in (5, 6)
    ]


def test_a_video_of_each_task(evaluated: Path) -> None:
    paths = json.loads((evaluated / "eval_info.json").read_text())["overall"]["video_paths"]
    assert [Path(path).name for path in paths] == ["reach-v3-seed-5.mp4", "push-v3-seed-5.mp4"]
    assert all(Path(path).stat().st_size > 0 for path in paths)


@pytest.mark.slow
def test_processes_and_batches_change_nothing(evaluated: Path, saved_run: Path, tmp_path: Path) -> None:
    assert run(flags(saved_run, tmp_path, "--num_workers=2", "--eval.batch_size=1")) == 0
    first, second = (read_results(folder / "eval_info.json") for folder in (evaluated, tmp_path))
    for before, after in zip(first.episodes, second.episodes, strict=True):
        assert (before.task, before.seed, before.is_success) == (after.task, after.seed, after.is_success)
        assert (before.num_steps, before.num_looks) == (after.num_steps, after.num_looks)


def test_the_table_names_tasks_and_intervals(saved_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run(flags(saved_run, tmp_path, "--num_workers=1", "--eval.n_episodes=1"))
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("reach-v3", "push-v3", "all", "0.00 to 0.79", "Wilson"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--policy.path="], "--policy.path is empty; give it a value"),
        (["--policy.path=nowhere"], "nowhere: there is no such folder"),
        (["--env.task=raech-v3"], "did you mean 'reach-v3'"),
        (["--env.type=metawrld"], "did you mean 'metaworld'"),
        (["--eval.n_episodes=0"], "at least 1"),
        (["--videos=9"], "0 to eval.n_episodes"),
        (["--env.camera=corner9"], "there is no camera"),
        (["--env.max_steps=900"], "1 to 500"),
        (["--env.full_light=true"], "Meta-World is rendered in one light alone; leave out --env.full_light"),
        (["--eval.initial_states=[0]"], r"initial_states=\[0\]: Meta-World has no official initial states"),
        (["--eval.initial_state=50"], "no flag --eval.initial_state; did you mean 'eval.initial_states'"),
        (["--num_workers=0"], "num_workers is 0; it must be at least 1"),
        (["--eval.n_action_steps=0"], "eval.n_action_steps is 0; it must be at least 1"),
        (["--eval.n_action_steps=17"], "eval.n_action_steps is 17 and the policy predicts 4 actions at a time"),
        (["--policy.device=gpu"], "policy.device is 'gpu'; it must be cpu or cuda"),
        (["--env.task=,"], "env.task names no task; for example --env.task=reach-v3"),
        (["--output_dir=/proc/nowhere"], "/proc/nowhere cannot be made .*; choose another --output_dir"),
    ],
)
def test_bad_flags_are_one_line_before_anything_runs(
    saved_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture, changes: list[str], words: str
) -> None:
    names = [change.partition("=")[0] for change in changes]
    given = [flag for flag in flags(saved_run, tmp_path / "out") if flag.partition("=")[0] not in names]
    with pytest.raises(ConfigError, match=words) as error:
        run([*given, *changes])
    assert "\n" not in str(error.value)
    assert capsys.readouterr().err == ""  # no bar for what never begins
    assert not (tmp_path / "out").exists()


def test_results_of_another_policy_are_not_written_over(evaluated: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds the results of .*; choose another --output_dir"):
        run(flags(save_run(make_trained(), tmp_path / "other"), evaluated))


def test_two_evaluations_do_not_write_to_one_folder(saved_run: Path, tmp_path: Path) -> None:
    with process_lock(tmp_path / "out" / "eval"), pytest.raises(ConfigError, match="another evaluation writes to"):
        run(flags(saved_run, tmp_path / "out"))


def test_the_default_folder_is_named_after_the_run_or_the_policy(saved_run: Path, tmp_path: Path) -> None:
    copied = tmp_path / "mine"
    shutil.copytree(saved_run / "checkpoints" / "000001" / "pretrained_model", copied)
    inside = shutil.copytree(copied, tmp_path / "other" / "pretrained_model")
    for path, name in (
        (saved_run, "run"),
        (saved_run / "checkpoints/last", "run"),
        (copied, "mine"),
        (inside, "other"),
    ):
        assert EvaluationConfig(policy=PolicyFlags(path=str(path))).output == Path("outputs/eval") / name
