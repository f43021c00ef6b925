"""Small datasets and runs that the training tests share."""

from __future__ import annotations

import dataclasses
import multiprocessing
from pathlib import Path

import pytest
import torch

from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.train.config import DatasetConfig, TrainConfig
from ptr_robot.train.loop import train
from ptr_robot.train.methods.registry import training_method

from .datasets import record_dataset

STEPS = 6
LENGTHS = (14, 11, 17, 9)


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def state_data(tmp_path_factory) -> Path:
    """States and actions alone; not to be changed."""
    return record_dataset(tmp_path_factory.mktemp("state") / "arm", lengths=LENGTHS)


@pytest.fixture(scope="session")
def image_data(tmp_path_factory) -> Path:
    """With one camera; not to be changed."""
    return record_dataset(tmp_path_factory.mktemp("images") / "arm", lengths=LENGTHS[:2], pixels=32)


@pytest.fixture(scope="session")
def processes():
    """Fresh processes that are ready at once: a server imports everything heavy and forks them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.train.worker"])
    return context


@pytest.fixture
def settings(state_data, tmp_path):
    """A few steps of PTR on states, with whatever a test changes."""

    def make(**changes) -> TrainConfig:
        ptr = training_method(changes.get("method", "ptr")).ptr_config(steps=STEPS, log_freq=2)
        ptr = dataclasses.replace(ptr, weights=dataclasses.replace(ptr.weights, warmup_steps=2))
        config = TrainConfig(
            dataset=DatasetConfig(repo_id=str(state_data), num_chunks=2, cache_dir=str(state_data.parent / "cache")),
            policy=VLAChoice(preset="tiny-state", chunk_length=4, device="cpu"),
            method="ptr",
            ptr=ptr,
            output_dir=str(tmp_path / "run"),
            steps=STEPS,
            batch_size=4,
            num_workers=0,
            log_freq=2,
            save_freq=3,
        )
        return dataclasses.replace(config, **changes)

    return make


@pytest.fixture(scope="module")
def trained(state_data, tmp_path_factory):
    """One run for all, not to be changed, and its settings."""
    made: list = []

    def get(config):
        if not made:
            folder = tmp_path_factory.mktemp("trained") / "run"
            made.append(dataclasses.replace(config, output_dir=str(folder), steps=3, save_freq=3))
            train(made[0])
        return made[0]

    return get
