"""What can be wrong with a command about LIBERO is one line of its complaint, and nothing is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest

from ptr_robot.cli.main import main
from ptr_robot.envs import recording
from ptr_robot.envs.libero.installation import ASSETS_VARIABLE
from tests.study.conftest import make_trained, save_run


def complaint_of(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command which must fail writes."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 1
    lines = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("recording:")]
    assert len(lines) == 1, lines
    return lines[0]


def collect(folder: object, *more: str) -> list[str]:
    return ["collect", str(folder), "--env.type=libero", "--images=false", "--episodes=2", *more]


@pytest.mark.libero
@pytest.mark.parametrize(
    ("task", "hint"),
    [
        ("libero_objct", "did you mean 'libero_object'?"),
        ("libero_object_12", "libero_object has tasks 0 to 9"),
        (
            "pick_up_the_buter_and_place_it_in_the_basket",
            "did you mean 'pick_up_the_butter_and_place_it_in_the_basket'?",
        ),
    ],
)
def test_an_unknown_suite_or_task_gets_a_hint(capfd, tmp_path, task, hint):
    assert hint in complaint_of(capfd, *collect(tmp_path / "new", f"--env.task={task}"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.libero
def test_missing_assets_are_named(capfd, tmp_path, monkeypatch):
    (tmp_path / "assets").mkdir()
    monkeypatch.setenv(ASSETS_VARIABLE, str(tmp_path / "assets"))
    complaint = complaint_of(capfd, *collect(tmp_path / "new", "--env.task=libero_object_1", "--num_workers=1"))
    assert f"{ASSETS_VARIABLE}={tmp_path / 'assets'}" in complaint
    assert not (tmp_path / "new").exists()


@pytest.mark.libero
def test_a_policy_of_another_robot_is_refused_before_anything_is_simulated(capfd, tmp_path):
    run = save_run(make_trained(), tmp_path / "run")
    flags = [f"--policy.path={run}", "--env.type=libero", "--env.task=libero_object_1", "--eval.n_episodes=1"]
    complaint = complaint_of(capfd, "eval", *flags, f"--output_dir={tmp_path / 'results'}")
    assert "LIBERO gives a state of 8 or 83 numbers and takes an action of 7" in complaint


@pytest.mark.libero
@pytest.mark.parametrize(
    ("states", "words"),
    [
        ("[0, 50]", "initial_states names 50; libero_object_1 has the states 0 to 49"),
        ("[-1]", "initial_states names -1; libero_object_1 has the states 0 to 49"),
        ("[]", "initial_states names no state"),
        ("0:10", "Couldn't parse '0:10' into an int"),
    ],
)
def test_initial_states_that_there_are_not_are_refused_before_anything_is_simulated(capfd, tmp_path, states, words):
    run = save_run(make_trained("libero"), tmp_path / "run")
    flags = [f"--policy.path={run}", "--env.type=libero", "--env.task=libero_object_1", "--eval.n_episodes=2"]
    complaint = complaint_of(
        capfd, "eval", *flags, f"--eval.initial_states={states}", f"--output_dir={tmp_path / 'out'}"
    )
    assert words in complaint
    assert not (tmp_path / "out").exists()


@pytest.mark.libero_assets
def test_a_killed_worker_is_one_line_and_leaves_nothing(capfd, tmp_path, monkeypatch):
    """As the kernel does when memory runs out: here as soon as both workers run."""
    started = recording.worker_processes

    def kill_soon(*arguments, **keywords):
        context = started(*arguments, **keywords)

        class Killing:
            def __enter__(self):
                executor = context.__enter__()
                executor.submit(os.getpid).result()
                for process in multiprocessing.active_children():
                    os.kill(process.pid, signal.SIGKILL)
                return executor

            def __exit__(self, *error):
                return context.__exit__(*error)

        return Killing()

    monkeypatch.setattr(recording, "worker_processes", kill_soon)
    complaint = complaint_of(capfd, *collect(tmp_path / "new", "--env.task=libero_object_1", "--num_workers=2"))
    assert "simulation processes was ended from outside" in complaint
    assert list(tmp_path.iterdir()) == []
