"""Weights of episodes that the user brings, and recorded chunks as the channels see them."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime

import pytest
import torch

from ptr_robot.data.config import SourceConfig
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.train.build import build_parts
from ptr_robot.train.config import DatasetConfig, resolve
from ptr_robot.train.loop import train


def with_weights(config, file):
    return dataclasses.replace(config, dataset=dataclasses.replace(config.dataset, episode_weights=str(file)))


def test_each_chunk_has_the_weight_of_its_episode(settings, tmp_path):
    file = tmp_path / "weights.json"
    file.write_text(json.dumps({"0": 0.0, "1": 0.5, "2": 1, "3": 3.0}))
    parts = build_parts(resolve(with_weights(settings(method="sft"), file), datetime.now()))
    batch = next(iter(parts.loader))
    output, _samples = parts.module(batch, 0)
    expected = torch.tensor([0.0, 0.5, 1.0, 3.0])[batch.episode_id].repeat_interleave(batch.num_chunks)
    expected[batch.chunk_is_pad.flatten()] = 0.0
    assert torch.equal(output.weights, expected)


@pytest.mark.parametrize("method", ["sft", "sft-belief"])
def test_an_episode_that_weighs_nothing_changes_nothing(settings, tmp_path, method):
    """The loss, and what is learnt from it, are those of the other episodes: weights meet their own chunks."""
    file = tmp_path / "weights.json"
    file.write_text(json.dumps({"0": 0.0, "1": 1.0, "2": 1.0, "3": 2.0}))
    config = dataclasses.replace(with_weights(settings(method=method), file), batch_size=16)
    parts = build_parts(resolve(config, datetime.now()))
    batch = next(iter(parts.loader))
    is_void = (batch.episode_id == 0).view(-1, 1, 1, 1)
    assert 0 < is_void.sum() < len(is_void)
    found = []
    for sign in (1, -1):
        parts.module.zero_grad()
        turned = dataclasses.replace(batch, actions=torch.where(is_void, sign * batch.actions, batch.actions))
        output, _ = parts.module(turned, 0)
        output.loss.backward()
        found.append([output.loss, *(p.grad for p in parts.policy.parameters() if p.grad is not None)])
    for value, expected in zip(*found, strict=True):
        torch.testing.assert_close(value, expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"0": 1, "1": 1, "2": 1}', "episode 3 has no weight"),
        ('{"0": 1, "1": 1e38, "2": 1, "3": 1}', "episode 1 weighs 1e[+]38; weights count against each other"),
        ('{"0": 1, "1": 1, "2": 1, "3": 1, "4": 1}', "a weight for episode 4, and the dataset has 4 episodes"),
        ('{"0": 1, "1": -1, "2": 1, "3": 1}', "'1': -1 is no weight of an episode"),
        ('{"0": 1, "1": true, "2": 1, "3": 1}', "'1': True is no weight"),
        ('{"0": 0, "1": 0, "2": 0, "3": 0}', "every episode of the run weighs nothing"),
        ("[1, 2]", "must be an object"),
        ("{", "not a readable JSON file"),
    ],
)
def test_a_broken_file_gets_one_line(settings, tmp_path, text, message):
    file = tmp_path / "weights.json"
    file.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        build_parts(resolve(with_weights(settings(), file), datetime.now()))
    assert "\n" not in str(caught.value)


def test_several_datasets_have_no_common_numbers(settings, state_data, tmp_path):
    file = tmp_path / "weights.json"
    file.write_text("{}")
    config = settings()
    sources = [SourceConfig(repo_id=str(state_data)), SourceConfig(repo_id=str(state_data))]
    dataset = DatasetConfig(sources=sources, cache_dir=config.dataset.cache_dir, episode_weights=str(file))
    with pytest.raises(ConfigError, match="episodes of one dataset, and this run reads 2"):
        build_parts(resolve(dataclasses.replace(config, dataset=dataset), datetime.now()))


def test_recorded_chunks_are_the_active_slots_of_real_steps(settings):
    parts = build_parts(resolve(settings(method="robust"), datetime.now()))
    batch = next(iter(parts.loader))
    _, samples = parts.module(batch, 0)
    active = batch.action_mask[0].nonzero().flatten().tolist()
    row = 0
    for segment in range(batch.batch_size):
        for chunk in range(batch.num_chunks):
            values = []
            for step in range(batch.actions.shape[2]):
                is_pad = bool(batch.action_is_pad[segment, chunk, step])
                values += [0.0 if is_pad else float(batch.actions[segment, chunk, step, slot]) for slot in active]
            torch.testing.assert_close(samples.action_targets[row], torch.tensor(values))
            row += 1


def test_the_robust_preset_trains_and_records_every_episode(settings):
    config = settings(method="robust")
    result = train(config)
    assert result.steps_done == config.steps


def test_a_resumed_run_may_not_change_them(settings, tmp_path):
    file = tmp_path / "weights.json"
    file.write_text(json.dumps({"0": 0.0, "1": 0.5, "2": 1, "3": 3.0}))
    config = with_weights(settings(method="sft", steps=2), file)
    train(config)
    resumed = dataclasses.replace(config, resume=True, steps=3)
    file.write_text(json.dumps({"0": 1.0, "1": 0.5, "2": 1, "3": 3.0}))
    with pytest.raises(DataError, match="begun with other weights of episodes"):
        train(resumed)
    file.write_text(json.dumps({"3": 3.0, "2": 1, "1": 0.5, "0": 0.0}))
    assert train(resumed).steps_done == 3
