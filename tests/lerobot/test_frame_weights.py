"""Weights of ``ptr score`` in ``lerobot-train``: looked up by ``index``, refused where they are of another dataset."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from ptr_robot.errors import DataError
from ptr_robot.lerobot.dataset_facts import DatasetFacts, frame_weights
from ptr_robot.lerobot.frame_weights import read_frame_weights, read_verdicts
from ptr_robot.lerobot.settings import PTRSettings

STARTS, LENGTHS = np.array([0, 4, 7]), np.array([4, 3, 5])


@pytest.fixture
def write(tmp_path):
    def write(**columns):
        file = tmp_path / "weights.parquet"
        pd.DataFrame(columns).to_parquet(file)
        return file

    return write


def test_frames_are_found_by_their_index_whatever_the_order(write):
    weights = read_frame_weights(write(index=[2, 0, 1], weight=[0.25, 4.0, 1.0]), 3, None)
    assert weights(torch.tensor([0, 1, 2, 9])).tolist() == [4.0, 1.0, 0.25, 0.25]


def test_dropped_episodes_weigh_nothing(write):
    file = write(episode_index=[0, 2, 1], weight=[1.0, 0.5, 0.3], verdict=["keep", "flag", "drop"])
    weights = read_verdicts(file, STARTS, LENGTHS)
    assert weights.weights.tolist() == [1.0] * 4 + [0.0] * 3 + [0.5] * 5


def test_both_files_multiply(write, tmp_path):
    frames = write(index=range(12), weight=[2.0] * 12)
    verdicts = tmp_path / "ptr_episodes.parquet"
    columns = {"episode_index": [0, 1, 2], "weight": [1.0, 1.0, 0.5], "verdict": ["keep", "drop", "flag"]}
    pd.DataFrame(columns).to_parquet(verdicts)
    settings = dataclasses.replace(PTRSettings(), prior_weights=str(frames), verdicts=str(verdicts))
    weights = frame_weights(settings, DatasetFacts(10.0, 12, STARTS, LENGTHS))
    assert weights.weights.tolist() == [2.0] * 4 + [0.0] * 3 + [1.0] * 5


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"index": [0, 1, 2, 3], "weight": [1.0] * 4}, "index runs from 0 to 3.*3 frames.*another dataset"),
        ({"index": [0, 1], "weight": [1.0] * 2}, "no weight for 1 of the dataset's 3 frames.*fallback_weight"),
        ({"index": [0, 1, 1], "weight": [1.0] * 3}, "repeats"),
        ({"index": [0, 1, 2], "weight": [1.0, -1.0, 1.0]}, "negative"),
        ({"index": [0, 1, 2], "weight": [1.0, float("nan"), 1.0]}, "missing"),
        ({"index": [0, 1, 2], "weight": [0.0] * 3}, "nothing to learn from"),
        ({"index": [0.5, 1, 2], "weight": [1.0] * 3}, "whole numbers"),
        ({"index": [0, 1, 2], "score": [1.0] * 3}, "no column 'weight'; it has: index, score"),
    ],
)
def test_a_file_that_does_not_fit_is_one_line(write, columns, message):
    with pytest.raises(DataError, match=message):
        read_frame_weights(write(**columns), 3, None)


def test_frames_without_a_row_take_the_fallback(write):
    assert read_frame_weights(write(index=[1], weight=[2.0]), 3, 0.5).weights.tolist() == [0.5, 2.0, 0.5]


def test_no_parquet_at_all(tmp_path):
    (tmp_path / "weights.csv").write_text("index,weight\n")
    for name in ("weights.csv", "nothing.parquet"):
        with pytest.raises(DataError, match="not a readable parquet file"):
            read_frame_weights(tmp_path / name, 3, None)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"episode_index": [0, 1], "weight": [1.0] * 2, "verdict": ["keep"] * 2}, "does not judge episode 2"),
        ({"episode_index": [0, 1, 3], "weight": [1.0] * 3, "verdict": ["keep"] * 3}, "another dataset"),
        ({"episode_index": [0, 1, 2], "weight": [1.0] * 3, "verdict": ["keep", "good", "drop"]}, "judged 'good'"),
    ],
)
def test_verdicts_that_do_not_fit(write, columns, message):
    with pytest.raises(DataError, match=message):
        read_verdicts(write(**columns), STARTS, LENGTHS)
