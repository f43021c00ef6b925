"""Forty tasks by the names and numbers that the field knows."""

from __future__ import annotations

import pickle
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ptr_robot.envs.libero import initial_states as initial_states_module
from ptr_robot.envs.libero.environment_type import Libero
from ptr_robot.envs.libero.initial_states import initial_state, initial_states
from ptr_robot.envs.libero.suites import SUITES, LiberoTask, resolve_task, suite_tasks
from ptr_robot.envs.registry import environment_type
from ptr_robot.errors import ConfigError, DataError

pytestmark = pytest.mark.libero


def test_instructions_are_those_of_the_problem_files_but_for_case_and_slips():
    for task in (task for suite in SUITES for task in suite_tasks(suite)):
        written = re.search(r"\(:language (.*)\)", task.problem_file.read_text())
        assert written is not None
        words = set(task.instruction.lower().split())
        shared = words & set(written[1].lower().split())
        assert len(shared) >= 0.6 * len(words), (task.instruction, written[1])


def test_every_suite_has_ten_tasks_and_the_official_limit():
    limits = {suite: environment_type("libero").step_limits(f"{suite}_0").usual for suite in SUITES}
    assert limits == {"libero_spatial": 220, "libero_object": 280, "libero_goal": 300, "libero_10": 520}
    assert all(len(suite_tasks(suite)) == 10 for suite in SUITES)


def test_a_suite_stands_for_its_tasks_and_a_task_has_several_names():
    libero = Libero()
    assert len(libero.resolve_tasks(["libero_goal"])) == 10
    long_name = "KITCHEN_SCENE8_put_both_moka_pots_on_the_stove"
    names = [libero.resolve_task(name) for name in ("libero_10_8", "libero_10/8", long_name)]
    assert names == [("libero_10_8",)] * 3
    assert libero.instruction("libero_10_8") == "put both moka pots on the stove"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("libero_objct", "did you mean 'libero_object'"),
        ("libero_object_10", "tasks 0 to 9"),
        ("put_the_bowl_on_the_stve", "did you mean 'put_the_bowl_on_the_stove'"),
        ("fly", "name a suite"),
    ],
)
def test_an_unknown_task_gets_a_hint(name, hint):
    with pytest.raises(ConfigError, match=re.escape(hint)):
        Libero().resolve_task(name)


def test_a_task_that_its_suite_names_already_is_refused():
    with pytest.raises(ConfigError, match="named twice"):
        Libero().resolve_tasks(["libero_goal", "libero_goal_2"])


def test_fifty_initial_states_and_no_more():
    task = resolve_task("libero_spatial_4")
    assert len(initial_states(task)) == Libero().num_initial_states(task.name) == 50
    assert not np.array_equal(initial_state(task, 0), initial_state(task, 49))
    for index in (-1, 50):
        with pytest.raises(ConfigError, match=f"0 to 49, got {index}"):
            initial_state(task, index)


def test_a_file_of_initial_states_runs_nothing(tmp_path, monkeypatch):
    class Task(LiberoTask):
        @property
        def initial_states_file(self) -> Path:
            return tmp_path / "states"

    class Harm:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "harmed",))

    with zipfile.ZipFile(tmp_path / "states", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Harm()))
        archive.writestr("archive/version", "3\n")
    with pytest.raises(DataError, match="not a readable file of initial states"):
        initial_states_module.initial_states(Task(**vars(replace(resolve_task("libero_goal_0")))))
    assert not (tmp_path / "harmed").exists()
