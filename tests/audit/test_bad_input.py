"""Datasets at the edges: few episodes, odd texts, pictures without content, folders that cannot be written."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from ptr_robot.audit.report import write_report
from ptr_robot.audit.score_files import write_scores
from ptr_robot.cli.main import run
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.errors import DataError, PTRError
from tests.audit.conftest import make_scores
from tests.audit.test_page import read_island

CAMERA = "observation.images.top"


def record(root, tasks, *, length=12, pixel=7):
    """A dataset whose only camera sees one colour."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    vector = {"dtype": "float32", "shape": (3,), "names": None}
    picture = {"dtype": "image", "shape": (16, 20, 3), "names": ["height", "width", "channels"]}
    features = {"observation.state": vector, "action": vector, CAMERA: picture}
    dataset = LeRobotDataset.create("owner/odd", fps=10, features=features, root=root, robot_type=None)
    generator = np.random.default_rng(0)
    for task in tasks:
        for _ in range(length):
            values = generator.normal(size=(2, 3)).astype("f4")
            image = np.full((16, 20, 3), pixel, dtype=np.uint8)
            dataset.add_frame({"observation.state": values[0], "action": values[1], CAMERA: image, "task": task})
        dataset.save_episode()
    dataset.finalize()
    return open_index(root)


def test_one_episode_is_shown_with_a_warning(tmp_path):
    index = record(tmp_path / "one", ["lift"])
    page = read_island(write_report(index, make_scores(index, "k"), tmp_path / "out").path.read_text(), "page")
    assert len(page["episodes"]) == 1
    assert "1 episodes are too few" in page["statements"][0]
    assert page["episodes"][0]["neighbour"] is None


def test_long_and_foreign_instructions_and_a_constant_video(tmp_path):
    tasks = ["把瓶子放进箱子里 🤖", "lift " * 2000, "\u202ehidden\u0000"[:-1]]
    index = record(tmp_path / "odd", tasks)
    text = write_report(index, make_scores(index, "kfd"), tmp_path / "out").path.read_text()
    page = read_island(text, "page")
    assert [card["task"] for card in page["episodes"]] == tasks
    assert page["episodes"][0]["thumbnail"].startswith("data:image/webp")
    assert "\u202e" not in text  # signs that change how the file reads are escaped


def test_a_folder_that_cannot_be_written_is_one_line(index, scores, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write_report(index, scores, tmp_path / "file" / "out")


def test_an_empty_folder_and_a_missing_one_are_one_line(tmp_path):
    for dataset in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(PTRError) as caught:
            run(["report", str(dataset), f"--output_dir={tmp_path / 'out'}"])
        assert len(str(caught.value).splitlines()) == 1


def test_an_interrupted_report_leaves_the_old_one(index, scores, tmp_path, monkeypatch):
    path = write_report(index, scores, tmp_path).path
    before = path.read_bytes()

    def interrupted(*_):
        yield "half a page"
        raise KeyboardInterrupt

    monkeypatch.setattr("ptr_robot.audit.report.render", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(index, scores, tmp_path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_training_run_is_compared(index, scores, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    run_folder = tmp_path / "run"
    run_folder.mkdir()
    lines = [json.dumps({"step": step, "train/loss": 1 / step, "weights/mean": 1.0}) for step in (1, 2, 3)]
    (run_folder / "records.jsonl").write_text("\n".join(lines) + "\n")
    numbers = [episode.episode_index for episode in index.episodes]
    weights = [scores.rows[number].score for number in numbers]
    parquet.write_table(
        pa.table({"episode_index": numbers, "mean_weight": weights}), run_folder / "episode_scores.parquet"
    )
    text = write_report(index, scores, tmp_path / "out", run=run_folder).path.read_text()
    training = read_island(text, "page")["training"]
    assert training["curves"]["train"]["train/loss"] == [1.0, 0.5, 0.3333]
    assert re.search(r"\+1\.00", training["agreement"])
    with pytest.raises(DataError, match="no records of a training"):
        write_report(index, scores, tmp_path / "out", run=tmp_path)


def test_the_command_takes_scores_that_are_there(dataset, index, scores, tmp_path, capsys):
    write_scores(tmp_path, scores)
    assert run(["report", str(dataset), f"--output_dir={tmp_path}"]) == 0
    assert f"open {tmp_path / 'ptr_report.html'}" in capsys.readouterr().out
