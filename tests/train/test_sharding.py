"""Two processes that share the weights are one process that has them all, and either goes on from the other's files."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ptr_robot.errors import ConfigError
from ptr_robot.policy.being_h.registration import BeingHChoice
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.config import DatasetConfig
from ptr_robot.train.loop import train
from ptr_robot.train.records import read_records
from ptr_robot.train.sharding import empty_copy, is_sharded_run, shared_like, whole_tensors

from . import worker
from .datasets import record_dataset
from .test_distributed import free_port

FILES = (
    "pretrained_model/model.safetensors",
    "training_state/ptr_state.safetensors",
    "training_state/optimizer_state.safetensors",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("shards") / "libero"
    return record_dataset(root, lengths=(60, 50), robot="panda", size=8, action_size=7, pixels=84)


@pytest.fixture
def being_h(settings, data):
    """A few steps of the tiny Being-H0.5, with an EMA tower and belief tokens."""
    folder = os.environ.get("PTR_ROBOT_BEING_H_TINY")
    if not folder:
        pytest.skip("PTR_ROBOT_BEING_H_TINY is not set: it names the folder of the tiny Being-H0.5 checkpoint")

    def make(**changes):
        policy = BeingHChoice(path=f"{folder}/checkpoint", device="cpu", checkpoint_activations=True)
        dataset = DatasetConfig(repo_id=str(data), num_chunks=2, cache_dir=str(data.parent / "cache"))
        return settings(**({"policy": policy, "dataset": dataset, "steps": 2, "save_freq": 1, "log_freq": 1} | changes))

    return make


def run_sharded(config, processes) -> None:
    port = free_port()
    target = worker.train_as_sharded_rank
    ranks = [processes.Process(target=target, args=(config, rank, 2, port)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0]


def stopped_after_the_first_step(run: Path, copy: Path) -> Path:
    shutil.copytree(run, copy, symlinks=True, ignore=shutil.ignore_patterns("000002"))
    (copy / "checkpoints" / "last").unlink()
    (copy / "checkpoints" / "last").symlink_to("000001")
    return copy


def assert_same_run(first, second) -> None:
    for file in FILES:
        tensors, expected = (load_file(latest_checkpoint(Path(c.output_dir)) / file) for c in (first, second))
        assert tensors.keys() == expected.keys()
        for name, tensor in tensors.items():
            torch.testing.assert_close(
                tensor, expected[name], rtol=1e-3, atol=1e-4, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}"
            )
    for record, expected in zip(*(read_records(Path(c.output_dir)) for c in (first, second)), strict=True):
        for name in ("loss", "action_loss", "gradient_norm", "num_samples"):
            assert record[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-4), name


@pytest.mark.parametrize("method", ["ptr", "sft"])
def test_two_that_share_equal_one_and_either_goes_on_from_the_other(being_h, processes, tmp_path, method):
    """With PTR the EMA tower is shared as well; a chunk without a consequence on one of them stops nothing."""
    one = being_h(method=method, batch_size=4, output_dir=str(tmp_path / "one"))
    two = being_h(method=method, batch_size=2, output_dir=str(tmp_path / "two"))
    train(one)
    run_sharded(two, processes)
    assert_same_run(two, one)
    begun = Path(two.output_dir) / "checkpoints" / "000001"
    train(dataclasses.replace(two, batch_size=4, resume=True), checkpoint=begun)
    assert_same_run(two, one)
    begun_by_one = dataclasses.replace(one, batch_size=2, resume=True, output_dir=str(tmp_path / "begun_by_one"))
    checkpoints = stopped_after_the_first_step(Path(one.output_dir), Path(begun_by_one.output_dir)) / "checkpoints"
    run_sharded(begun_by_one, processes)
    assert (checkpoints / "last").resolve().name == "000002"
    assert_same_run(begun_by_one, one)


def test_an_empty_copy_holds_no_numbers_and_leaves_the_module_alone():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    copy = empty_copy(module)
    assert all(tensor.is_meta for tensor in copy.state_dict().values())
    assert not any(tensor.is_meta for tensor in module.state_dict().values())
    assert copy.state_dict().keys() == module.state_dict().keys()


def test_whole_tensors_pass_as_they_are():
    tensors = {"a": torch.ones(3)}
    assert whole_tensors(tensors, is_kept=True)["a"] is tensors["a"]
    assert whole_tensors(tensors, is_kept=False) == {}
    assert shared_like(tensors["a"], torch.zeros(3)) is tensors["a"]


def test_fsdp_1_is_refused(monkeypatch):
    class Two:
        num_processes = 2

    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "1")
    with pytest.raises(ConfigError, match="fsdp_version: 2"):
        is_sharded_run(Two())
    monkeypatch.setenv("FSDP_VERSION", "2")
    assert is_sharded_run(Two())
