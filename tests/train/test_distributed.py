"""Two processes with a batch each are one process with both."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.loop import train
from ptr_robot.train.records import read_records

from . import worker
from .test_screening import QUICK, screened


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def train_on_two(config, processes, exit_codes=(0, 0)) -> None:
    port = free_port()
    ranks = [processes.Process(target=worker.train_as_rank, args=(config, rank, 2, port)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == list(exit_codes)


@pytest.mark.parametrize(
    ("method", "head"),
    [("ptr", "flow"), ("sft", "flow"), ("screened", "flow"), ("ptr", "diffusion"), ("ptr", "autoregressive")],
)
def test_two_processes_equal_one_with_the_double_batch(settings, processes, tmp_path, method, head):
    """Noise is keyed by sample, so nothing depends on which rank a sample is on."""
    config = settings(method=method)
    config = dataclasses.replace(config, policy=dataclasses.replace(config.policy, head=head), screening=QUICK)
    one = dataclasses.replace(config, output_dir=str(tmp_path / "one"), batch_size=8)
    two = dataclasses.replace(config, output_dir=str(tmp_path / "two"), batch_size=4)
    train(one)
    train_on_two(two, processes)
    for file in ("pretrained_model/model.safetensors", "training_state/sums.safetensors"):
        tensors, expected = (load_file(latest_checkpoint(Path(c.output_dir)) / file) for c in (two, one))
        for name, tensor in tensors.items():
            torch.testing.assert_close(tensor, expected[name], rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
    for record, expected in zip(*(read_records(Path(c.output_dir)) for c in (two, one)), strict=True):
        for name in ("loss", "action_loss", "weight_mean", "score_mean", "gradient_norm", "num_samples"):
            if name in expected:
                assert record[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-4), name


def test_the_complaint_of_screening_ends_all_processes(settings, processes):
    """One of them screens; none waits for the others for ever."""
    config = screened(settings)
    dataset = dataclasses.replace(config.dataset, offset_steps=100)
    train_on_two(dataclasses.replace(config, dataset=dataset), processes, exit_codes=(1, 1))
