"""Training methods are found by name, aliases are resolved once, and a user's own method decides about episodes."""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.errors import ConfigError
from ptr_robot.method.ptr.config import PTRConfig
from ptr_robot.method.scoring.screen import ScreeningConfig
from ptr_robot.train.build import build_parts
from ptr_robot.train.config import TrainConfig, resolve
from ptr_robot.train.episode_records import EPISODE_SCORES_FILE
from ptr_robot.train.loop import train
from ptr_robot.train.methods import registry
from ptr_robot.train.methods.base import EpisodeFinding, Preparation, TrainingMethod
from ptr_robot.train.methods.registry import register_method, training_method
from ptr_robot.train.methods.screened import SCREENING_FILE

from .conftest import LENGTHS

OTHER_TEXT = "close the drawer"


@pytest.fixture
def _registry_of_its_own(monkeypatch):
    training_method("sft")
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))


def test_paper_is_another_name_of_ptr():
    assert training_method("paper") is not None
    assert TrainConfig(method="paper").method == "ptr"
    assert resolve(TrainConfig(method="paper"), datetime.now()).config.job_name == "ptr_tiny"
    with pytest.raises(ConfigError, match=r"there is no method 'screned'; did you mean 'screened'"):
        TrainConfig(method="screned")


class OddEpisodes(TrainingMethod):
    """Trains on every second episode, half of them at half weight, one with other words."""

    name = "odd"
    leaves_out_episodes = True

    def paper_config(self) -> PTRConfig:
        return PTRConfig.preset("sft")

    def prepare(self, run) -> Preparation:
        weights = torch.tensor([0.0, 1.0, 0.0, 0.5])
        return Preparation(
            episode_weights=weights,
            kept=[[1, 3]],
            instructions={3: OTHER_TEXT},
            findings={number: EpisodeFinding(2, -float(number), float(weights[number])) for number in range(4)},
            summary="every second episode",
        )


@pytest.mark.usefixtures("_registry_of_its_own")
def test_a_method_is_one_class(settings, capsys):
    register_method(OddEpisodes)
    config = settings(method="odd", ptr=None)
    parts = build_parts(resolve(config, datetime.now()))
    assert [e.episode_index for e in parts.loader.dataset.sources[0].index.episodes] == [1, 3]
    batch = next(iter(parts.loader))
    assert OTHER_TEXT in batch.instructions
    output, _ = parts.module(batch, 0)
    expected = torch.where(batch.episode_id == 3, 0.5, 1.0).repeat_interleave(batch.num_chunks)
    expected[batch.chunk_is_pad.flatten()] = 0.0
    torch.testing.assert_close(output.weights, expected)
    run = train(config).output_dir
    assert "every second episode" in capsys.readouterr().err
    rows = read_parquet(run / EPISODE_SCORES_FILE).to_pylist()
    assert [row["mean_score"] for row in rows] == [0.0, -1.0, -2.0, -3.0]
    assert [row["corrected_instruction"] for row in rows] == [None, None, None, OTHER_TEXT]


@pytest.mark.usefixtures("_registry_of_its_own")
def test_two_methods_of_one_name_are_refused():
    register_method(OddEpisodes)

    class Another(OddEpisodes):
        aliases = ("sft",)
        name = "another"

    with pytest.raises(ConfigError, match="two training methods 'sft'"):
        register_method(Another)


def test_what_is_kept_of_open_data_is_what_opening_it_alone_gives(state_data, tmp_path):
    """Statistics, numbers and batches: recomputed by opening the chosen episodes as a dataset of their own."""
    source = SourceConfig(str(state_data), robot="metaworld")
    data = DataConfig([source, source], chunk_length=4, num_chunks=2, image_size=0, cache_dir=str(tmp_path))
    kept, texts = [[0, 2], [1, 2, 3]], {2: OTHER_TEXT}
    restricted = SegmentDataset(data, seed=3).restricted(kept, texts)
    chosen = [dataclasses.replace(source, episodes=numbers) for numbers in kept]
    opened = SegmentDataset(dataclasses.replace(data, sources=chosen), 3, texts)
    assert restricted.config == opened.config
    assert restricted.task_ids == opened.task_ids
    for ours, theirs in zip(restricted.sources, opened.sources, strict=True):
        for name in ("states", "actions"):
            ours_, theirs_ = (part.tables.statistics(name).to_dict() for part in (ours, theirs))
            assert ours_ == theirs_
        assert np.array_equal(ours.state_map.normaliser.scale, theirs.state_map.normaliser.scale)
    first, second = (dataset[range(len(dataset))] for dataset in (restricted, opened))
    for field in dataclasses.fields(first):
        ours, theirs = getattr(first, field.name), getattr(second, field.name)
        assert torch.equal(ours, theirs) if isinstance(ours, torch.Tensor) else ours == theirs, field.name


def test_a_checkpoint_of_the_first_version_is_resumed(settings, monkeypatch):
    """It has other names: ``standings`` in what screening found, ``prior_weights`` in the state."""
    quick = ScreeningConfig(steps=3, batch_size=8, pool_size=8, hidden_dim=8, num_folds=2)
    config = dataclasses.replace(settings(method="screened"), screening=quick)
    run = train(config).output_dir
    state = run / "checkpoints" / "000003" / "training_state"
    expected = load_file(run / "checkpoints/last/pretrained_model/model.safetensors")
    found = load_file(state / SCREENING_FILE)
    found["standings"] = found.pop("z_scores")
    save_file(found, state / SCREENING_FILE)
    record = json.loads((state / "state.json").read_text())
    record["prior_weights"] = record.pop("episode_weights")
    (state / "state.json").write_text(json.dumps(record))
    monkeypatch.setattr("ptr_robot.train.screening.screen", lambda *_: pytest.fail("screened again"))
    train(dataclasses.replace(config, resume=True), checkpoint=state.parent)
    resumed = load_file(run / "checkpoints/last/pretrained_model/model.safetensors")
    assert all(torch.equal(resumed[name], expected[name]) for name in expected)


@pytest.mark.usefixtures("_registry_of_its_own")
def test_the_documents_method_trains_on_the_longer_half(settings):
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "LongerHalf" in block]
    names: dict = {}
    exec(block, names)
    register_method(names["LongerHalf"])
    parts = build_parts(resolve(settings(method="longer-half", ptr=None), datetime.now()))
    kept = [LENGTHS[episode.episode_index] for episode in parts.loader.dataset.sources[0].index.episodes]
    assert sorted(kept) == sorted(LENGTHS)[-2:]
