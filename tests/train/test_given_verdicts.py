"""Training by verdicts: of ``ptr score``, of a person, or both."""

from __future__ import annotations

import dataclasses
import json
import shutil
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from ptr_robot.audit.score_files import write_scores
from ptr_robot.cli.main import run
from ptr_robot.cli.train import read_flags
from ptr_robot.data.config import SourceConfig
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.lerobot.metadata import read_parquet
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.method.scoring.screen import ScreeningConfig
from ptr_robot.train.build import build_parts
from ptr_robot.train.config import DatasetConfig, WeightsConfig, resolve
from ptr_robot.train.episode_records import EPISODE_SCORES_FILE
from ptr_robot.train.loop import train

from ..audit.conftest import make_scores
from .datasets import TASKS

WEIGHTS = [1.0, 0.0, 0.5, 0.75]  # as the files below have them; episode 3 under the instruction that it follows


def built(config):
    return build_parts(resolve(config, datetime.now()))


@pytest.fixture
def scores_file(state_data, tmp_path):
    """Episode 1 is dropped, 2 flagged, and 3 has another instruction's motion."""
    scores = make_scores(open_index(state_data), "kdfd")
    rows = dict(scores.rows)
    rows[2] = dataclasses.replace(rows[2], weight=0.5)
    rows[3] = dataclasses.replace(rows[3], corrected_instruction=TASKS[0], weight_if_corrected=0.75)
    write_scores(tmp_path / "scores", dataclasses.replace(scores, rows=rows))
    return str(tmp_path / "scores" / "ptr_episodes.parquet")


@pytest.fixture
def marks_file(tmp_path):
    """A person drops episode 0 and keeps episode 1."""
    file = tmp_path / "marks.json"
    file.write_text(json.dumps({"format": 1, "dataset": "arm", "verdicts": {"0": "drop", "1": "keep"}}))
    return str(file)


def kept(parts) -> list[int]:
    return [episode.episode_index for episode in parts.loader.dataset.sources[0].index.episodes]


def test_scores_decide_what_is_trained_on_with_which_weight_and_instruction(settings, scores_file):
    parts = built(settings(method="sft", verdicts=[scores_file]))
    assert kept(parts) == [0, 2, 3]
    assert parts.preparation.episode_weights.tolist() == WEIGHTS
    dataset = parts.loader.dataset
    batch = dataset[range(len(dataset))]
    assert {TASKS[0]} == {text for number, text in zip(batch.episode_id.tolist(), batch.instructions, strict=True)}
    output, _ = parts.module(batch, 0)
    expected = torch.tensor(WEIGHTS)[batch.episode_id].repeat_interleave(batch.num_chunks)
    expected[batch.chunk_is_pad.flatten()] = 0.0
    torch.testing.assert_close(output.weights, expected)
    assert parts.preparation.summary == (
        "verdicts on 4 episodes: 1 are kept in full, 2 weigh less, 1 (1) are out, 1 given another instruction"
    )


def test_the_sampler_draws_by_them(settings, scores_file):
    parts = built(settings(method="sft", verdicts=[scores_file], weights=WeightsConfig("sampler"), ptr=None))
    assert parts.loader.episode_weights.tolist() == WEIGHTS
    assert parts.module.facts.episode_weights is None


def test_the_users_own_factors_come_on_top(settings, scores_file, tmp_path):
    file = tmp_path / "weights.json"
    file.write_text('{"0": 2.0, "1": 4.0, "2": 0.5, "3": 1.0}')
    config = settings(method="sft", verdicts=[scores_file])
    config = dataclasses.replace(config, dataset=dataclasses.replace(config.dataset, episode_weights=str(file)))
    assert built(config).preparation.episode_weights.tolist() == [2.0, 0.0, 0.25, 0.75]


def test_marks_overrule_scores(settings, scores_file, marks_file):
    parts = built(settings(method="sft", verdicts=[scores_file, marks_file]))
    assert kept(parts) == [1, 2, 3]
    assert parts.preparation.episode_weights.tolist() == [0.0, 1.0, 0.5, 0.75]


def test_marks_alone_leave_the_others_to_the_method(settings, marks_file, monkeypatch):
    parts = built(settings(method="sft", verdicts=[marks_file]))
    assert kept(parts) == [1, 2, 3]
    assert parts.preparation.episode_weights.tolist() == [0.0, 1.0, 1.0, 1.0]

    def found(dataset, *_, **__):
        screening = score_sources(dataset, ScreeningConfig(), None)
        return dataclasses.replace(screening, weights=torch.tensor([1.0, 0.0, 0.25, 0.0]))

    from ptr_robot.train.scored_episodes import score_sources

    monkeypatch.setattr("ptr_robot.train.screening.score_sources", found)
    config = settings(method="screened", verdicts=[marks_file])
    parts = built(config)
    assert kept(parts) == [1, 2]
    assert parts.preparation.episode_weights.tolist() == [0.0, 1.0, 0.25, 0.0]
    assert "2 (1, 3) are out" in parts.preparation.summary.splitlines()[0]
    assert parts.preparation.summary.splitlines()[1].startswith("verdicts on 2 episodes: 1 are kept in full")
    rows = read_parquet(train(config).output_dir / EPISODE_SCORES_FILE).to_pylist()
    assert [row["mean_weight"] for row in rows] == pytest.approx([0.0, 1.0, 0.25, 0.0])


def test_what_is_scored_already_is_not_screened_again(settings, scores_file, monkeypatch):
    monkeypatch.setattr("ptr_robot.train.methods.screened.screen_once", lambda *_, **__: pytest.fail("screened"))
    config = settings(method="screened", verdicts=[scores_file])
    result = train(config)
    rows = read_parquet(result.output_dir / EPISODE_SCORES_FILE).to_pylist()
    assert [row["mean_score"] for row in rows] == [0.8, 0.01, 0.1, 0.01]
    assert [row["mean_weight"] for row in rows] == pytest.approx(WEIGHTS)
    train(dataclasses.replace(config, resume=True, steps=config.steps + 1))


@pytest.mark.parametrize("change", ["weight", "corrected_instruction"])
def test_a_run_does_not_go_on_with_other_verdicts(settings, scores_file, change):
    config = settings(method="sft", verdicts=[scores_file])
    train(config)
    table = parquet.read_table(scores_file)
    values = table[change].to_pylist()
    values[0] = 0.5 if change == "weight" else TASKS[1]
    column = table.schema.get_field_index(change)
    parquet.write_table(table.set_column(column, table.schema.field(column), pa.array(values)), scores_file)
    with pytest.raises(DataError, match=r"begun with other .* verdicts named back as it was"):
        train(dataclasses.replace(config, resume=True, steps=config.steps + 1))


def changed(file: str, name: str, values, rows: slice = slice(None)) -> None:
    table = parquet.read_table(file)
    column = table.schema.get_field_index(name)
    table = table.set_column(column, name, pa.array(values)) if values is not None else table
    parquet.write_table(table.take(np.arange(table.num_rows)[rows]), file)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("episode_index", [0, 1, 2, 9], "has episode 9, and .* has 4; is it the file of another dataset"),
        ("episode_index", [0, 1, 2, 2], "damaged .an episode has two rows"),
        ("corrected_instruction", [None, None, None, "sing"], "the instruction 'sing', which .* does not have"),
        ("corrected_instruction", [0, 1, 2, 3], "damaged .instruction 0"),
        ("weight", [1.0, 2.0, 0.5, 0.0], "damaged .weight 2.0"),
        ("weight", [1.0, float("nan"), 0.5, 0.0], "damaged .weight nan"),
        ("verdict", ["keep", "drop", "burn", "keep"], "damaged .verdict 'burn'"),
    ],
)
def test_scores_that_do_not_fit_are_one_line(settings, scores_file, name, values, words):
    changed(scores_file, name, values)
    with pytest.raises(DataError, match=words) as caught:
        built(settings(method="sft", verdicts=[scores_file]))
    assert "\n" not in str(caught.value)


def test_files_of_another_dataset_are_one_line(settings, scores_file, marks_file, tmp_path):
    changed(scores_file, "weight", None, rows=slice(3))
    with pytest.raises(DataError, match=r"has no episode 3, which .* has; is it the file of another dataset"):
        built(settings(method="sft", verdicts=[scores_file]))
    table = parquet.read_table(scores_file)
    parquet.write_table(table.replace_schema_metadata({"ptr_total_frames": "7"}), scores_file)
    with pytest.raises(DataError, match=r"scores 7 frames, and .* has 51; is it the file of another dataset"):
        built(settings(method="sft", verdicts=[scores_file]))
    marks = tmp_path / "others.json"
    for entries, words in (
        ({"total_frames": 7, "verdicts": {"0": "drop"}}, "marks a dataset of 7 frames, and this one has 51"),
        ({"verdicts": {"4": "drop"}}, "marks episode '4', which the dataset does not have"),
        ({"verdicts": {str(number): "drop" for number in range(4)}}, "leave no episode to train on"),
    ):
        marks.write_text(json.dumps({"format": 1, **entries}))
        with pytest.raises(DataError, match=words):
            built(settings(method="sft", verdicts=[str(marks)]))


def test_other_mistakes_are_one_line(settings, scores_file, marks_file, state_data, tmp_path):
    for files in (["verdicts.csv"], [marks_file, marks_file]):
        with pytest.raises(ConfigError, match=r"give a \.parquet file of ptr score, a \.json file of marks"):
            built(settings(method="sft", verdicts=files))
    with pytest.raises(DataError, match="no such file; score the dataset first"):
        built(settings(method="sft", verdicts=[str(tmp_path / "none.parquet")]))
    twin = shutil.copytree(state_data, tmp_path / "twin")
    dataset = DatasetConfig(sources=[SourceConfig(repo_id=str(folder)) for folder in (state_data, twin)], num_chunks=2)
    with pytest.raises(ConfigError, match="verdicts name the episodes of one dataset, and this run reads 2"):
        built(settings(method="sft", verdicts=[marks_file], dataset=dataset))
    with pytest.raises(ConfigError, match=r"--screening.seed=1 would change nothing: the verdicts bring their scores"):
        read_flags([f"--verdicts={scores_file}", f"--dataset.repo_id={state_data}", "--screening.seed=1"])


def test_the_commands_fit_each_other(state_data, tmp_path, capsys):
    """ptr score, then ptr train on what it wrote."""
    scores, out = tmp_path / "scores", tmp_path / "run"
    assert run(["score", str(state_data), f"--output_dir={scores}", "--num_seeds=1", "--chunk_length=4"]) == 0
    flags = ["--policy.preset=micro-state", "--policy.chunk_length=4", "--dataset.num_chunks=2", "--steps=1"]
    flags += ["--batch_size=2", "--num_workers=0", f"--dataset.cache_dir={tmp_path / 'cache'}", f"--output_dir={out}"]
    words = [f"--dataset.repo_id={state_data}", f"--verdicts={scores / 'ptr_episodes.parquet'}", *flags]
    assert run(["train", *words]) == 0
    assert "verdicts on 4 episodes" in capsys.readouterr().err
    given = read_parquet(scores / "ptr_episodes.parquet").to_pylist()
    rows = read_parquet(out / EPISODE_SCORES_FILE).to_pylist()
    assert [row["mean_score"] for row in rows] == [row["score"] for row in given]
