"""The dataset that is written is the one that was simulated, atomically."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from ptr_robot.cli.collect import main
from ptr_robot.data.ground_truth import read_ground_truth
from ptr_robot.envs.demonstration import demonstrate
from ptr_robot.envs.metaworld.environment import MetaWorldEnvironment
from ptr_robot.envs.operators import OPERATORS
from ptr_robot.envs.recording import COLLECTION_FILE, RecordingConfig, record
from ptr_robot.envs.scripted import Workplace
from ptr_robot.errors import ConfigError, DataError, PTRError
from tests.envs.conftest import CAMERA, METAWORLD, SMALL_CAMERA


@pytest.fixture(scope="module")
def dataset(recorded):
    return LeRobotDataset("metaworld/test", root=recorded[0])


def test_lerobot_opens_it(dataset, recorded):
    assert dataset.meta.robot_type == "metaworld"
    assert dataset.fps == 80
    assert dataset.num_episodes == 3
    assert list(dataset.meta.episodes["length"]) == [episode.num_frames for episode in recorded[1]]
    item = dataset[0]
    assert item["observation.images.corner2"].shape == (3, 32, 32)
    assert item["observation.environment_state"].shape == (39,)
    assert item["task"] == "Reach a goal position"


def test_replayed_actions_give_the_recorded_states_and_images(dataset, recorded):
    environment = MetaWorldEnvironment("reach", SMALL_CAMERA)
    collection = json.loads((recorded[0] / COLLECTION_FILE).read_text())
    frame = 0
    for episode, result in zip(collection["episodes"], recorded[1], strict=True):
        environment.reset(episode["seeds"]["layout"])
        for step in range(result.num_frames):
            item = dataset[frame]
            for key, state in environment.states.items():
                np.testing.assert_array_equal(item[key], state)
            if step % 20 == 0:
                image = (item["observation.images.corner2"].permute(1, 2, 0) * 255).round().byte().numpy()
                np.testing.assert_array_equal(image, environment.render(CAMERA))
            environment.step(item["action"].numpy())
            frame += 1
    assert frame == len(dataset)


def test_the_ground_truth_is_that_of_the_planned_demonstrations(recorded, plan):
    truths = read_ground_truth(recorded[0])
    workplace = Workplace.of(METAWORLD, MetaWorldEnvironment("reach"))
    for episode in plan:
        expected = demonstrate(workplace, OPERATORS[episode.operator], episode.seeds, match_lengths=True)
        truth = truths[episode.episode_index]
        assert truth.faults == expected.faults
        assert truth.is_faulty is OPERATORS[episode.operator].is_faulty
        assert (truth.operator, truth.is_success) == (episode.operator, expected.is_success)


def test_the_number_of_workers_changes_nothing(recorded, plan, tmp_path):
    root = tmp_path / "alone"
    record(root, plan, METAWORLD, RecordingConfig(SMALL_CAMERA, has_images=False, num_workers=1))
    columns = ["observation.state", "observation.environment_state", "action", "episode_index", "timestamp"]
    tables = [pq.read_table(path / "data/chunk-000/file-000.parquet", columns=columns) for path in (root, recorded[0])]
    assert tables[0].equals(tables[1])


def test_an_existing_folder_is_left_alone(recorded, plan):
    with pytest.raises(DataError, match="exists already"):
        record(recorded[0], plan, METAWORLD, RecordingConfig(SMALL_CAMERA))


@pytest.mark.parametrize(
    ("error", "raised"), [(KeyboardInterrupt, KeyboardInterrupt), (OSError(28, "full"), DataError)]
)
def test_an_interrupted_recording_leaves_nothing(plan, tmp_path, error, raised):
    def interrupt(_):
        raise error

    config = RecordingConfig(SMALL_CAMERA, has_images=False, num_workers=1, match_lengths=False)
    with pytest.raises(raised):
        record(tmp_path / "new", plan[:1], METAWORLD, config, interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_made_meanwhile_is_named_and_left_alone(plan, tmp_path):
    config = RecordingConfig(SMALL_CAMERA, has_images=False, num_workers=1, match_lengths=False)
    with pytest.raises(DataError, match="new was made by another process meanwhile"):
        record(tmp_path / "new", plan[:1], METAWORLD, config, lambda _: (tmp_path / "new/meta").mkdir(parents=True))
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "meta"]


def test_what_a_killed_recording_left_is_removed_by_the_next_one(plan, tmp_path):
    """A lock says which of them live, whatever number their process had."""
    for name in (".new.partial-dead", ".new.partial-alive", ".newer.partial-dead"):
        (tmp_path / name / "meta").mkdir(parents=True)
    alive = os.open(tmp_path / ".new.partial-alive", os.O_RDONLY)
    fcntl.flock(alive, fcntl.LOCK_EX)
    config = RecordingConfig(SMALL_CAMERA, has_images=False, num_workers=1, match_lengths=False)
    record(tmp_path / "new", plan[:1], METAWORLD, config)
    os.close(alive)
    assert {path.name for path in tmp_path.iterdir()} == {"new", ".new.partial-alive", ".newer.partial-dead"}


def test_a_killed_worker_is_one_line_and_leaves_nothing(plan, tmp_path):
    """As the kernel does when memory runs out."""

    def kill_workers(_):
        for process in multiprocessing.active_children():
            os.kill(process.pid, signal.SIGKILL)

    config = RecordingConfig(SMALL_CAMERA, has_images=False, num_workers=2, match_lengths=False)
    with pytest.raises(PTRError, match=r"one of 2 simulation processes .* --num_workers=1"):
        record(tmp_path / "new", plan * 3, METAWORLD, config, kill_workers)
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_command_ends_its_workers_and_leaves_nothing(tmp_path):
    """SIGTERM, as a job scheduler sends it; Ctrl-C takes the same way."""
    command = [sys.executable, "-m", "ptr_robot.cli.main", "collect", str(tmp_path / "new"), "--env.task=reach"]
    process = subprocess.Popen([*command, "--episodes=500", "--images=false"], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(tmp_path.glob(".new.partial-*/new/meta/tasks.parquet")):
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, complaint = process.communicate(timeout=600)
    assert process.returncode == 130, complaint
    assert "ptr: interrupted" in complaint
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_a_dataset_and_a_summary(tmp_path, capsys):
    output = tmp_path / "command"
    flags = [
        "--env.task=reach",
        "--episodes=2",
        "--operators={brisk: 1, jittery: 1}",
        "--images=false",
        "--num_workers=1",
    ]
    assert main([str(output), *flags]) == 0
    printed = capsys.readouterr().out
    assert "jittery" in printed
    assert "2 episodes, 1 of them with faults" in " ".join(printed.split())
    assert json.loads((output / "meta/info.json").read_text())["total_episodes"] == 2
    assert len(read_ground_truth(output)) == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "name a folder"),
        (["x", "--env.task=reech"], "did you mean 'reach-v3'"),
        (["x", "--operators={brisk: 1, jitery: 1}"], "did you mean 'jittery'"),
        (["x", "--episodes=0"], "episodes=0"),
        (["x", "--seed=-1"], "seed=-1 must be 0 or more"),
        (["x", "--tasks=reach"], "--tasks is now --env.task"),
        (["x", "--camera.image_size=64"], "--camera.image_size is now --env.image_size"),
        (["x", "--env.type=metawrld"], "no environment 'metawrld'; did you mean 'metaworld'"),
        (["x", "--env.camera=corner22"], "did you mean 'corner2'"),
        (["x", "--env.camera=corner,corner2", "--image_key=observation.image"], "there are 2 cameras"),
        (["x", "--operators=brisk"], r"--operators='\{first: 0\.5, second: 1\.0\}'"),
        (["x", "--num_workers=0"], "num_workers=0"),
        (["x", "--image_key=picture"], "must begin with observation.image"),
        (["x", "--match_length=true"], "did you mean 'match_lengths'"),
    ],
)
def test_bad_flags_are_refused_before_anything_is_simulated(flags, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=words):
        main(flags)
    assert list(tmp_path.iterdir()) == []
