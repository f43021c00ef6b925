"""Weights through the sampler: the loss is plain, draws follow the weights, and runs resume and spread as others do."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from pathlib import Path

import pyarrow.parquet
import pytest
import torch
from safetensors.torch import load_file

from ptr_robot.errors import ConfigError
from ptr_robot.train.build import build_parts
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.config import WeightsConfig, resolve
from ptr_robot.train.loop import train
from ptr_robot.train.optimisation import Optimiser
from ptr_robot.train.records import read_records
from ptr_robot.train.sampler_weights import draw_weights

from .test_distributed import train_on_two

SAMPLER = WeightsConfig(apply="sampler")


def weights_file(folder: Path, num_episodes: int) -> str:
    """Nothing for the first episode, four for the second, one for the others."""
    weights = {str(number): float((0.0, 4.0)[number]) if number < 2 else 1.0 for number in range(num_episodes)}
    file = folder / "weights.json"
    file.write_text(json.dumps(weights))
    return str(file)


def with_given_weights(settings, tmp_path, **changes):
    config = settings(weights=SAMPLER, **changes)
    plain = build_parts(resolve(dataclasses.replace(config, weights=WeightsConfig(), method="sft"), datetime.now()))
    file = weights_file(tmp_path, plain.loader.dataset.num_episodes)
    return dataclasses.replace(config, dataset=dataclasses.replace(config.dataset, episode_weights=file))


def final_weights(run: str) -> dict[str, torch.Tensor]:
    return load_file(latest_checkpoint(Path(run)) / "pretrained_model" / "model.safetensors")


def test_what_episodes_are_drawn_by_is_the_given_factor_times_the_mean_weight():
    totals = torch.tensor([[4.0, 4, 0, 8], [0, 0, 0, 0], [2, 2, 0, 0.5]], dtype=torch.float64)
    assert draw_weights(torch.tensor([1.0, 2.0, 4.0]), totals, 3).tolist() == [2.0, 2.0, 1.0]
    assert draw_weights(None, None, 3).tolist() == [1.0, 1.0, 1.0]


def test_given_weights_decide_what_comes_and_no_loss_is_weighted(settings, tmp_path):
    config = with_given_weights(settings, tmp_path, method="sft", ptr=None)
    parts = build_parts(resolve(config, datetime.now()))
    assert parts.module.facts.episode_weights is None
    first, second, third = parts.loader.plan.order.expected_counts()[parts.loader.dataset.first_segments[:3]]
    assert first == 0
    assert second == pytest.approx(4 * third)
    train(config)
    records = read_records(Path(config.output_dir))
    assert {record["weight_mean"] for record in records} == {1.0}
    scores = pyarrow.parquet.read_table(Path(config.output_dir) / "episode_scores.parquet").to_pydict()
    assert scores["num_samples"][0] == 0
    assert sum(scores["num_samples"]) > 0


def test_records_are_of_the_plain_loss_and_of_the_weights_that_ptr_gave(settings):
    config = settings(weights=SAMPLER)
    train(config)
    records = read_records(Path(config.output_dir))
    assert any(record["weight_std"] > 0 for record in records)
    for record in records:
        assert record["action_loss"] == pytest.approx(record["plain_action_loss"])
        assert record["effective_sample_size"] == pytest.approx(record["num_samples"])
        assert record["kl"] == pytest.approx(0, abs=1e-9)
        assert (record["ratio_min"], record["ratio_max"], record["source_0/ratio"]) == pytest.approx((1, 1, 1))
        assert sum(share for name, share in record.items() if name.startswith("weight_share/")) == pytest.approx(1)


def test_a_resumed_run_equals_an_uninterrupted_one(settings, tmp_path, monkeypatch):
    """The break comes in the middle of a draw by weights that have moved."""
    whole = dataclasses.replace(settings(weights=SAMPLER, save_freq=3), output_dir=str(tmp_path / "whole"))
    broken = dataclasses.replace(whole, output_dir=str(tmp_path / "broken"))
    train(whole)
    step, calls = Optimiser.step, []

    def fail_later(self, *arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Optimiser, "step", fail_later)
        with pytest.raises(KeyboardInterrupt):
            train(broken)
    train(dataclasses.replace(broken, resume=True))
    expected = final_weights(whole.output_dir)
    for name, tensor in final_weights(broken.output_dir).items():
        assert torch.equal(tensor, expected[name]), name
    state = json.loads((latest_checkpoint(Path(whole.output_dir)) / "training_state" / "state.json").read_text())
    assert len(set(state["loader"]["episode_weights"])) > 1  # they did move


def test_two_processes_equal_one_with_the_double_batch(settings, processes, tmp_path):
    config = with_given_weights(settings, tmp_path, method="sft", ptr=None)
    one = dataclasses.replace(config, output_dir=str(tmp_path / "one"), batch_size=8)
    two = dataclasses.replace(config, output_dir=str(tmp_path / "two"), batch_size=4)
    train(one)
    train_on_two(two, processes)
    expected = final_weights(one.output_dir)
    for name, tensor in final_weights(two.output_dir).items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-3, atol=1e-3)
    for record, other in zip(*(read_records(Path(c.output_dir)) for c in (two, one)), strict=True):
        assert record["action_loss"] == pytest.approx(other["action_loss"], rel=1e-3)
        assert record["num_samples"] == other["num_samples"]


def test_other_weights_cannot_be_resumed(settings, tmp_path):
    config = with_given_weights(settings, tmp_path, method="sft", ptr=None, steps=3)
    train(config)
    file = Path(config.dataset.episode_weights)
    file.write_text(file.read_text().replace("4.0", "3.0"))
    with pytest.raises(ConfigError, match=r"map of states was another one|drawn by other weights"):
        train(dataclasses.replace(config, resume=True, steps=6))


def test_a_method_without_weights_is_refused(settings):
    with pytest.raises(ConfigError, match="'sft' has no weights"):
        build_parts(resolve(settings(method="sft", ptr=None, weights=SAMPLER), datetime.now()))


def test_the_switch_is_one_for_every_weight(settings):
    config = settings(method="ptr")
    ptr = dataclasses.replace(config.ptr, weights=dataclasses.replace(config.ptr.weights, apply="sampler"))
    with pytest.raises(ConfigError, match=r"give --weights\.apply"):
        resolve(dataclasses.replace(config, ptr=ptr), datetime.now())
