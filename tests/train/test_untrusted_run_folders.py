"""A run folder from elsewhere with links and pipes in it: refused in one line, nothing outside changes."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
from pathlib import Path

import pytest

from ptr_robot.cli.train import read_flags
from ptr_robot.errors import PTRError
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.loop import train
from ptr_robot.train.trained import load_trained

LONGEST_SECONDS = 120  # a pipe that is opened for reading waits for ever
STATE, MODEL = "checkpoints/000003/training_state", "checkpoints/000003/pretrained_model"
IN_A_RUN = [
    "train_config.json",
    "run.json",
    "records.jsonl",
    "run.lock",
    "README.txt",
    "episode_scores.parquet",
    "tensorboard",
    "checkpoints",
    "checkpoints/last",
    "checkpoints/000003",
    "checkpoints/.000004.partial",
    f"{STATE}/state.json",
    f"{STATE}/optimizer_state.safetensors",
    f"{STATE}/sums.safetensors",
    f"{MODEL}/config.json",
    f"{MODEL}/model.safetensors",
]
IN_A_POLICY = ["config.json", "sources.json", "model.safetensors", "tokenizer.json"]


@pytest.fixture(autouse=True)
def nobody_waits():
    def give_up(*_: object) -> None:
        raise AssertionError(f"it took more than {LONGEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LONGEST_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def own(settings, trained, tmp_path):
    """The settings that resume a copy of the run, and the copy."""
    config = trained(settings())
    run = Path(shutil.copytree(config.output_dir, tmp_path / "run", symlinks=True))
    return dataclasses.replace(config, output_dir=str(run), resume=True, steps=4), run


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def take_out(path: Path, outside: Path) -> None:
    """Move the file or folder out, and leave a link to it in its place."""
    target = outside / path.name
    if path.is_symlink():
        shutil.copytree(path.resolve(), target)
        path.unlink()
    elif path.exists():
        path.rename(target)
    else:
        target.mkdir()
    path.symlink_to(target)


def put_pipe(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("name", IN_A_RUN)
def test_a_link_that_leads_out_of_a_run_is_not_followed(own, tmp_path, name):
    config, run = own
    outside = tmp_path / "outside"
    outside.mkdir()
    take_out(run / name, outside)
    before = contents(outside)
    with pytest.raises(PTRError, match="a link that leads out of") as refusal:
        train(config)
    assert "\n" not in str(refusal.value)
    assert contents(outside) == before


@pytest.mark.parametrize("name", IN_A_RUN)
def test_a_pipe_in_a_run_keeps_nobody_waiting(own, name):
    config, run = own
    put_pipe(run / name)

    def resume() -> None:
        read_flags(["--resume=true", f"--output_dir={run}"])
        train(config)

    with pytest.raises(PTRError) as refusal:
        resume()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", IN_A_POLICY)
def test_a_pipe_in_a_policy_keeps_nobody_waiting(own, name):
    folder = latest_checkpoint(own[1]) / "pretrained_model"
    put_pipe(folder / name)
    with pytest.raises(PTRError, match=name):
        load_trained(folder)


def test_a_policy_whose_weights_lie_elsewhere_is_read(own, tmp_path):
    folder = latest_checkpoint(own[1]) / "pretrained_model"
    take_out(folder / "model.safetensors", tmp_path)
    load_trained(folder)
