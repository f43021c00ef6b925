"""What corruption refuses, in one line each, and that nothing half-written is left."""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptr_robot.data.corruptions import ActionNoise, LabelNoise, Truncation, corrupt_dataset, paper_corruptions
from ptr_robot.data.ground_truth import read_ground_truth
from ptr_robot.errors import ConfigError, DataError
from tests.data import v21_writer

from .corrupted_sets import column


def test_folders_in_the_way_are_refused(source, corrupted, tmp_path):
    with pytest.raises(ConfigError, match="exists already"):
        corrupt_dataset(source, corrupted("ani"), [LabelNoise()])
    with pytest.raises(ConfigError, match="lies inside the dataset"):
        corrupt_dataset(source, source / "copy", [LabelNoise()])
    with pytest.raises(DataError, match="no such dataset folder"):
        corrupt_dataset(tmp_path / "nowhere", tmp_path / "out", [LabelNoise()])
    with pytest.raises(ConfigError, match="did you mean 'action'"):
        corrupt_dataset(source, tmp_path / "out", [ActionNoise()], action_key="actions")
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_are_texts_are_one_line(source, tmp_path):
    root = shutil.copytree(source, tmp_path / "data")
    file = next(root.glob("meta/episodes/*/*.parquet"))
    table = pq.read_table(file)
    place = table.schema.get_field_index("dataset_to_index")
    pq.write_table(table.set_column(place, "dataset_to_index", table["dataset_to_index"].cast(pa.string())), file)
    with pytest.raises(DataError, match=r"file-000\.parquet: a column has another type") as refusal:
        corrupt_dataset(root, tmp_path / "out", [LabelNoise()])
    assert "\n" not in str(refusal.value)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_interrupted_run_leaves_nothing(source, tmp_path):
    def interrupt(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corrupt_dataset(source, tmp_path / "out", [LabelNoise()], on_episode=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_made_meanwhile_is_named_and_left_alone(source, tmp_path):
    def make_it(done, total):
        (tmp_path / "out/meta").mkdir(parents=True, exist_ok=True)

    with pytest.raises(DataError, match=r"out was made by another process meanwhile; choose another --output_dir"):
        corrupt_dataset(source, tmp_path / "out", [LabelNoise()], on_episode=make_it)
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "meta"]


def test_a_disk_that_takes_no_more_is_one_clear_line(source, tmp_path):
    """A file-size limit of the process stands for the full disk: the system refuses the write in both cases."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    command = [sys.executable, "-m", "ptr_robot.cli.main", "corrupt", str(source), f"--output_dir={tmp_path / 'out'}"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(command, preexec_fn=limit, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith(f"ptr: error: {tmp_path / 'out'}: cannot be written (")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [("stats.json", "{"), ("stats.json", "[1]"), ("ptr_corruption.json", "["), ("ptr_corruption.json", "{}")],
)
def test_metadata_that_cannot_be_read_is_named_before_anything_is_written(source, tmp_path, name, content):
    own = Path(shutil.copytree(source, tmp_path / "own"))
    (own / "meta" / name).write_text(content)
    with pytest.raises(DataError, match=rf"own/meta/{name}: .*; fetch the dataset again") as caught:
        corrupt_dataset(own, tmp_path / "out", paper_corruptions("tt"))
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]


@pytest.mark.parametrize("kind", ["tt", "ani"])
def test_actions_of_text_are_named(source, tmp_path, kind):
    own = Path(shutil.copytree(source, tmp_path / "own"))
    path = own / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path, partitioning=None)
    words = pa.array([["left"] * 3] * len(table))
    pq.write_table(table.set_column(table.schema.get_field_index("action"), "action", words), path)
    with pytest.raises(DataError, match=r"file-000\.parquet: episode 0, 'action', .* type string, not numbers"):
        corrupt_dataset(own, tmp_path / "out", paper_corruptions(kind))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]


def test_a_source_with_lost_rows_or_bad_values_is_named(source, tmp_path):
    own = Path(shutil.copytree(source, tmp_path / "own"))
    file = min(own.glob("data/*/*.parquet"))
    frames = pandas.read_parquet(file)
    frames.drop(index=3).to_parquet(file, index=False)
    with pytest.raises(DataError, match=r"file-000\.parquet: episode 0 has 39 rows, its metadata says 40"):
        corrupt_dataset(own, tmp_path / "out", [LabelNoise()])
    frames.at[3, "action"] = np.array([0, np.nan, 0], dtype="f4")
    frames.to_parquet(file, index=False)
    with pytest.raises(DataError, match=r"file-000\.parquet: episode 0 has nan in 'action', frame 3"):
        corrupt_dataset(own, tmp_path / "out", [ActionNoise()])
    min(own.glob("videos/*/*/*.mp4")).unlink()
    with pytest.raises(DataError, match=r"file-000\.mp4: episode 0, .*: no such file"):
        corrupt_dataset(own, tmp_path / "out", [LabelNoise()])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]


def nan_in_an_action(root):
    states, actions = v21_writer.episode_values(1, v21_writer.LENGTHS[1])
    actions[7, 2] = np.nan
    v21_writer.write_table(v21_writer.table_path(root, 1), 1, states, actions, v21_writer.LENGTHS[0])


def short_statistics(root):
    path = root / "meta/episodes_stats.jsonl"
    path.write_text("\n".join(path.read_text().split("\n")[:-2]))


def statistics_of_another_shape(root):
    path = root / "meta/episodes_stats.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["stats"]["action"] = {"mean": "unknown"}
    path.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (nan_in_an_action, r"cubes/.*000001.parquet: episode 1 has nan in 'action', frame 7, dimension 2"),
        (lambda root: v21_writer.video_path(root, 2).unlink(), r"cubes/.*000002.mp4: episode 2, .*: no such file"),
        (
            lambda root: v21_writer.video_path(root, 2).write_bytes(b"no"),
            r"cubes/.*000002.mp4: episode 2, .*not a read",
        ),
        (lambda root: v21_writer.table_path(root, 2).unlink(), r"episode 2: .*cubes/.*000002.parquet: no such file"),
        (
            lambda root: os.truncate(v21_writer.table_path(root, 2), 900),
            r"episode 2: .*cubes/.*000002.parquet: not a r",
        ),
        (short_statistics, r"cubes/meta/episodes_stats.jsonl: no line for episode 3"),
        (statistics_of_another_shape, r"cubes: LeRobot cannot convert this v2.1 dataset \(\w+: .+\)"),
        (lambda root: (root / "meta/episodes_stats.jsonl").unlink(), r"cubes/meta/episodes_stats.jsonl: no such file"),
    ],
)
def test_a_bad_v21_source_is_named_by_its_own_file_and_episode(own_v21, tmp_path, spoil, line):
    """Whichever episodes are hit: a NaN in any episode would spoil the deviation that scales the noise of all."""
    spoil(own_v21)
    for seed in range(2):
        with pytest.raises(DataError, match=line) as caught:
            corrupt_dataset(own_v21, tmp_path / "out", [ActionNoise(fraction=0.25)], seed=seed)
        assert "\n" not in str(caught.value)
        assert "partial" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["cubes"]


def test_a_video_that_cannot_be_decoded_is_one_line_about_the_source(v21, tmp_path, monkeypatch):
    def broken(dataset, *arguments):
        raise DataError(f"{dataset.root}/videos/file-000.mp4: frame 0 cannot be decoded")

    monkeypatch.setattr("ptr_robot.data.corruptions.write.write_data", broken)
    with pytest.raises(DataError, match=r"cubes, as LeRobot converts it to v3.0: videos/file-000.mp4: frame") as caught:
        corrupt_dataset(v21, tmp_path / "out", [Truncation(fraction=1.0)])
    assert "\n" not in str(caught.value)
    assert "partial" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_converter_leaves_no_handler_that_writes_into_a_closed_file(v21, tmp_path, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    corrupt_dataset(v21, tmp_path / "out", [LabelNoise()])
    assert logging.root.handlers == []


def test_noise_has_the_stated_strength_on_a_v21_source(v21, tmp_path):
    corrupt_dataset(v21, tmp_path / "out", [ActionNoise(fraction=1.0, sigma=0.1)])
    lengths = v21_writer.LENGTHS
    before = np.concatenate([v21_writer.episode_values(e, n)[1] for e, n in enumerate(lengths)])
    noise = (column(tmp_path / "out", "action") - before) / before.std(axis=0)
    assert noise.std() == pytest.approx(0.1, rel=0.15)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sigma", [1e30, 1e38, 1e39])
def test_noise_beyond_what_statistics_can_hold_is_refused(source, tmp_path, sigma):
    with pytest.raises(DataError, match=r"mixed\b.*, 'action': the statistics would not be finite; lower --sigma"):
        corrupt_dataset(source, tmp_path / "out", [ActionNoise(sigma=sigma)])
    assert list(tmp_path.iterdir()) == []


def test_truncation_and_wrong_instructions_need_no_actions(source, tmp_path):
    for kind in ("tt", "ln"):
        corrupt_dataset(source, tmp_path / kind, paper_corruptions(kind), action_key="nothing of the kind")
        assert read_ground_truth(tmp_path / kind)


def test_actions_that_noise_cannot_be_added_to(own_v21, tmp_path):
    path = own_v21 / "meta/info.json"
    info = json.loads(path.read_text())
    info["features"]["action"]["dtype"] = "int64"
    path.write_text(json.dumps(info))
    with pytest.raises(DataError, match="'action' holds int64 values; Gaussian noise needs floating point"):
        corrupt_dataset(own_v21, tmp_path / "out", [ActionNoise()])
    with pytest.raises(
        ConfigError, match=r"cubes: there is no feature 'actoin' \(--action_key\); did you mean 'action'"
    ):
        corrupt_dataset(own_v21, tmp_path / "out", [ActionNoise()], action_key="actoin")
