from __future__ import annotations

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptr_robot.audit.score_files import EPISODES_FILE, FRAMES_FILE, SUMMARY_FILE, read_scores, write_scores
from ptr_robot.errors import DataError


def test_what_is_written_is_read_back(scores, tmp_path):
    write_scores(tmp_path, scores)
    found = read_scores(tmp_path)
    assert found.rows == dict(scores.rows)
    assert found.channels == dict(scores.channels)
    np.testing.assert_array_equal(found.frames.index, scores.frames.index)
    np.testing.assert_array_equal(found.frames.evidence["outcome"], scores.frames.evidence["outcome"])


def test_frames_are_in_the_form_of_static_weighting(score_folder):
    import pyarrow.parquet as parquet

    assert parquet.read_schema(score_folder / FRAMES_FILE).names[:2] == ["index", "weight"]


def test_timelines_are_the_frames_of_one_episode(scores, index):
    for episode in index.episodes:
        trace = scores.timelines(episode.episode_index, episode.length)["outcome"]
        plain = [
            value
            for value, owner in zip(scores.frames.evidence["outcome"], scores.frames.episode_index, strict=True)
            if owner == episode.episode_index
        ]
        np.testing.assert_array_equal(trace, plain)


@pytest.mark.parametrize("name", [EPISODES_FILE, FRAMES_FILE, SUMMARY_FILE])
def test_a_missing_or_damaged_file_is_named(score_folder, tmp_path, name):
    folder = shutil.copytree(score_folder, tmp_path / "scores")
    (folder / name).write_bytes(b"PAR1 not at all")
    with pytest.raises(DataError, match=name):
        read_scores(folder)
    (folder / name).unlink()
    with pytest.raises(DataError, match=f"{name}.*no such file"):
        read_scores(folder)


@pytest.mark.parametrize(
    "change", [{"format": 2}, {"channels": 3}, {"statements": None}, {"dataset": "mine"}, {"checks": [3]}]
)
def test_a_foreign_summary_is_refused(score_folder, tmp_path, change):
    folder = shutil.copytree(score_folder, tmp_path / "scores")
    summary = json.loads((folder / SUMMARY_FILE).read_text()) | change
    (folder / SUMMARY_FILE).write_text(json.dumps(summary))
    with pytest.raises(DataError, match="again"):
        read_scores(folder)


@pytest.mark.parametrize("name", ["index", "episode_index", "frame_index"])
def test_a_frame_without_a_number_is_refused(score_folder, tmp_path, name):
    folder = shutil.copytree(score_folder, tmp_path / "scores")
    table = pq.read_table(folder / FRAMES_FILE)
    values = [None, *table.column(name).to_pylist()[1:]]
    table = table.set_column(table.column_names.index(name), name, pa.array(values, type=pa.int64()))
    pq.write_table(table, folder / FRAMES_FILE)
    with pytest.raises(DataError, match=f"damaged.*{name!r} holds float64"):
        read_scores(folder)
