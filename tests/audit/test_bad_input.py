"""Datasets at the edges: few episodes, odd texts, pictures without content, folders that cannot be written."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from ptr_robot.audit.page.build import PageSettings
from ptr_robot.audit.report import write_report
from ptr_robot.audit.score_files import write_scores
from ptr_robot.cli.main import run
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.errors import DataError, PTRError
from tests.audit.conftest import make_scores
from tests.audit.test_page import read_island
from tests.train.datasets import record_dataset

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


def test_too_few_episodes_to_compare_and_none_at_all_are_one_line(tmp_path):
    few, none = tmp_path / "few", tmp_path / "none"
    record(few, ["lift"] * 3)
    empty(none)
    for verb in ("score", "report"):
        for folder, words in ((few, "needs at least 4, there are 3"), (none, "no episode")):
            with pytest.raises(PTRError, match=words) as caught:
                run([verb, str(folder), f"--output_dir={tmp_path / 'out'}"])
            assert len(str(caught.value).splitlines()) == 1


def empty(root):
    """A dataset whose recording was never begun."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    vector = {"dtype": "float32", "shape": (3,), "names": None}
    LeRobotDataset.create("owner/none", fps=10, features={"observation.state": vector, "action": vector}, root=root)


def test_odd_texts_and_a_constant_video_are_scored_and_shown(tmp_path, capsys):
    """Through the commands: other scripts, 10 kB, no text at all; and few episodes are warned of."""
    tasks = ["把瓶子放进箱子里 🤖", "lift " * 2000, "", "[red]lift[/red]\x1b[31m"]
    record(tmp_path / "odd", tasks * 2, length=20)
    words = [str(tmp_path / "odd"), f"--output_dir={tmp_path / 'out'}"]
    cache = f"--cache_dir={tmp_path / 'cache'}"
    assert run(["score", *words, cache, "--vision=thumbnails", "--num_seeds=1", "--chunk_length=4"]) == 0
    shown = capsys.readouterr().out
    assert "8 episodes are too few to know what is usual" in shown
    assert "\x1b[31m" not in shown
    assert run(["report", *words]) == 0
    page = read_island((tmp_path / "out" / "ptr_report.html").read_text(), "page")
    assert [card["task"] for card in page["episodes"]] == tasks * 2


def test_instructions_that_are_gone_are_one_line(tmp_path):
    record(tmp_path / "odd", ["lift"] * 4)
    (tmp_path / "odd" / "meta" / "tasks.parquet").unlink()
    for verb in ("score", "report"):
        with pytest.raises(DataError, match=r"tasks.parquet: no such file") as caught:
            run([verb, str(tmp_path / "odd"), f"--output_dir={tmp_path / 'out'}"])
        assert len(str(caught.value).splitlines()) == 1


def test_a_place_that_cannot_be_written_is_one_line_before_any_work(dataset, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("ptr_robot.audit.scoring.score_dataset", lambda *_: pytest.fail("scored first"))
    with pytest.raises(DataError, match="cannot be written"):
        run(["score", str(dataset), f"--output_dir={tmp_path / 'file' / 'out'}"])


def test_hundreds_of_episodes_that_are_all_alike_are_one_page(tmp_path):
    index = open_index(repeated(record_dataset(tmp_path / "many", lengths=(6,)), 300))
    written = write_report(index, make_scores(index), tmp_path / "out", settings=PageSettings(chunk_length=4))
    page = read_island(written.path.read_text(), "page")
    assert len(page["episodes"]) == 300
    assert written.megabytes < 2


def repeated(root, count):
    """The dataset's one episode again and again."""
    info_file = root / "meta" / "info.json"
    info = json.loads(info_file.read_text())
    length = info["total_frames"]
    info |= {"total_episodes": count, "total_frames": count * length, "splits": {"train": f"0:{count}"}}
    info_file.write_text(json.dumps(info))
    starts = np.arange(count) * length
    (frames,), (episodes,) = root.glob("data/*/*.parquet"), root.glob("meta/episodes/*/*.parquet")
    owners = np.repeat(np.arange(count), length)
    replaced(frames, count, {"episode_index": owners, "index": np.arange(count * length)})
    ends = {"dataset_from_index": starts, "dataset_to_index": starts + length}
    replaced(episodes, count, {"episode_index": np.arange(count), **ends})
    return root


def replaced(file, count, columns):
    table = parquet.read_table(file)
    table = table.take(np.tile(np.arange(table.num_rows), count))
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), pa.array(values))
    parquet.write_table(table, file)


def test_a_training_run_is_compared(index, scores, tmp_path):
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
    assert training["curves"]["Losses"]["train/loss"] == [1.0, 0.5, 0.3333]
    assert re.search(r"\+1\.00", training["agreement"])
    with pytest.raises(DataError, match="no records of a training"):
        write_report(index, scores, tmp_path / "out", run=tmp_path)


def test_the_command_takes_scores_that_are_there(dataset, index, scores, tmp_path, capsys):
    write_scores(tmp_path, scores)
    assert run(["report", str(dataset), f"--output_dir={tmp_path}"]) == 0
    assert f"open {tmp_path / 'ptr_report.html'}" in capsys.readouterr().out
