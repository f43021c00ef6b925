"""Damaged checkpoints, run folders, studies, robot maps, marks and weights."""

from __future__ import annotations

import dataclasses
import json
import shutil
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given

from ptr_robot.cli.train import read_flags
from ptr_robot.data.robots import read_robot
from ptr_robot.envs.operators import read_operators
from ptr_robot.eval.results import read_results
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.scorers.marks import read_marks
from ptr_robot.study.spec.definition_file import read_study
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.config import DatasetConfig, TrainConfig
from ptr_robot.train.episode_weights import read_episode_weights
from ptr_robot.train.loop import train
from ptr_robot.train.records import read_records
from ptr_robot.train.trained import load_trained

from ..train.datasets import record_dataset
from .conftest import fuzz_settings, needs_time, no_output, slow_fuzz_settings
from .mutations import texts, turned

STUDY = resources.files("ptr_robot.study") / "studies/smoke.yaml"
ROBOT = resources.files("ptr_robot.data.robots") / "libero.yaml"
_EPISODES = [SimpleNamespace(episode_index=0), SimpleNamespace(episode_index=1)]
TWO_EPISODES = SimpleNamespace(sources=[SimpleNamespace(index=SimpleNamespace(total_episodes=2, episodes=_EPISODES))])
SMALL_FILES = {
    "study": (lambda file: read_study(str(file)), yaml.safe_load(STUDY.read_text()), "study.yaml"),
    "robot": (read_robot, yaml.safe_load(ROBOT.read_text()), "robot.yaml"),
    "operators": (read_operators, {"mine": {"description": "slow", "speed": 0.5}}, "operators.yaml"),
    "verdicts": (
        lambda file: read_marks(file, {0: 1, 1: 1}),
        {"format": 1, "verdicts": {"1": "drop"}},
        "marks.json",
    ),
    "weights": (
        lambda file: read_episode_weights(file, TWO_EPISODES),
        {"0": 1.0, "1": 0.25},
        "weights.json",
    ),
    "results": (read_results, {"episodes": [{"task": "reach", "seed": 0}]}, "results.json"),
    "records": (lambda file: read_records(file.parent), {"step": 1, "loss": 0.5}, "records.jsonl"),
}


@pytest.mark.parametrize("kind", SMALL_FILES)
def test_small_files(probe, tmp_path, kind):
    read, sound, name = SMALL_FILES[kind]
    file = tmp_path / name

    @fuzz_settings
    @given(texts(sound))
    def run(content):
        file.write_bytes(content + b"\n")
        probe(lambda: read(file))

    run()


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    record_dataset(folder / "arm", lengths=(14, 11))
    with no_output():
        train(_config(folder))
    return folder / "run"


def _config(folder: Path) -> TrainConfig:
    return TrainConfig(
        dataset=DatasetConfig(repo_id=str(folder / "arm"), num_chunks=2, cache_dir=str(folder / "cache")),
        policy=VLAChoice(preset="micro-state", chunk_length=4, device="cpu"),
        method="sft",
        output_dir=str(folder / "run"),
        steps=1,
        batch_size=2,
        num_workers=0,
    )


@pytest.mark.parametrize("name", ["config.json", "sources.json"])
def test_checkpoints(probe, trained_run, tmp_path, name):
    folder = shutil.copytree(latest_checkpoint(trained_run) / "pretrained_model", tmp_path / "model")

    @fuzz_settings
    @given(texts(json.loads((folder / name).read_text())))
    def run(content):
        (folder / name).write_bytes(content)
        probe(lambda: load_trained(folder))

    run()


def test_weights(probe, trained_run, tmp_path):
    folder = shutil.copytree(latest_checkpoint(trained_run) / "pretrained_model", tmp_path / "model")
    content = (folder / "model.safetensors").read_bytes()

    @fuzz_settings
    @given(turned(content[:4000]))
    def run(head):
        (folder / "model.safetensors").write_bytes(head + content[4000:])
        probe(lambda: load_trained(folder))

    run()


@needs_time
@pytest.mark.parametrize("name", ["run.json", "training_state/state.json"])
def test_run_folders(probe, trained_run, tmp_path, name):
    """Read as ``ptr train --resume=true`` does."""
    run_folder = shutil.copytree(trained_run, tmp_path / "run", symlinks=True)
    config = dataclasses.replace(_config(trained_run.parent), output_dir=str(run_folder), resume=True, steps=2)
    file = run_folder / name if name == "run.json" else latest_checkpoint(run_folder) / name
    sound = json.loads(file.read_text())

    @slow_fuzz_settings
    @given(texts(sound))
    def run(content):
        copy = shutil.copytree(run_folder, tmp_path / "copy", symlinks=True)
        (copy / file.relative_to(run_folder)).write_bytes(content)
        with no_output():
            probe(lambda: train(dataclasses.replace(config, output_dir=str(copy))))
        shutil.rmtree(copy)

    run()


def test_settings_of_a_resumed_run(probe, trained_run, tmp_path):
    """Read as ``ptr train --resume=true`` does, up to where the data is opened."""
    run_folder = shutil.copytree(trained_run, tmp_path / "run", symlinks=True)
    file = run_folder / "train_config.json"
    sound = json.loads(file.read_text())

    @fuzz_settings
    @given(texts(sound))
    def run(content):
        file.write_bytes(content)
        with no_output():
            probe(lambda: read_flags(["--resume=true", f"--output_dir={run_folder}"]))

    run()
