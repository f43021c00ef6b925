"""``ptr corrupt`` from the command line to the dataset."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptr_robot.cli.main import run
from ptr_robot.data.ground_truth import read_ground_truth
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.errors import ConfigError

from ..data.v21_writer import LENGTHS, TASKS, write_v21
from ..train.datasets import record_dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_v21(tmp_path_factory.mktemp("source") / "cubes")


def test_flags_reach_the_dataset_and_a_table_says_what_was_done(dataset, tmp_path, capsys):
    flags = ["--kind=combined", "--fraction=0.5", "--sigma=0.3", "--noise_unit=raw", "--keep_to=0.5", "--seed", "8"]
    assert run(["corrupt", str(dataset), f"--output_dir={tmp_path / 'out'}", *flags]) == 0
    truths = read_ground_truth(tmp_path / "out")
    by_kind = {}
    for number, truth in truths.items():
        for fault in truth.faults:
            by_kind.setdefault(fault.kind, {})[number] = fault.details
    assert {kind: len(episodes) for kind, episodes in by_kind.items()} == dict.fromkeys(
        ("action_noise", "truncation", "label_noise"), 2
    )
    assert all(details == {"sigma": 0.3, "unit": "raw"} for details in by_kind["action_noise"].values())
    assert all(0.4 <= details["kept_fraction"] <= 0.5 for details in by_kind["truncation"].values())
    for number, details in by_kind["label_noise"].items():
        assert (details["original"], details["instruction"]) == ([TASKS[number % 2]], TASKS[1 - number % 2])
    (step,) = json.loads((tmp_path / "out/meta/ptr_corruption.json").read_text())
    assert (step["source"], step["seed"]) == ("cubes", 8)
    text = " ".join(capsys.readouterr().out.split())
    for kind, episodes in by_kind.items():
        assert f"{kind.replace('_', ' ')} 2 {', '.join(map(str, episodes))}" in text
    kept = open_index(tmp_path / "out").num_frames
    assert f"4 episodes, {sum(LENGTHS)} -> {kept} frames" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the source dataset is missing"),
        (["SOURCE"], "--output_dir is missing"),
        (["SOURCE", "--output_dir=out", "--kind=at"], "no corruption 'at'"),
        (["SOURCE", "--output_dir=out", "--fraction=2"], "not above 1"),
        (["SOURCE", "--output_dir=out", "--kind=tt", "--sigma=0.5"], "--sigma belongs to the kind 'ani' and --kind is"),
        (["SOURCE", "--output_dir=out", "--kind=ln", "--keep_to=0.5"], "--keep_to belongs to the kind 'tt'"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(dataset, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        run(["corrupt", *(str(dataset) if word == "SOURCE" else word for word in arguments)])
    assert list(tmp_path.iterdir()) == []


def test_combined_on_one_task_leaves_the_instructions_and_says_so(tmp_path, capsys):
    source = record_dataset(tmp_path / "one", lengths=(20,) * 8)
    tasks = pd.read_parquet(source / "meta/tasks.parquet")
    tasks.iloc[:1].to_parquet(source / "meta/tasks.parquet")
    for file in source.glob("data/*/*.parquet"):
        table = pq.read_table(file)
        zeros = pa.array([0] * len(table), table.schema.field("task_index").type)
        pq.write_table(table.set_column(table.column_names.index("task_index"), "task_index", zeros), file)
    assert run(["corrupt", str(source), f"--output_dir={tmp_path / 'out'}"]) == 0
    assert "ln needs a second task" in capsys.readouterr().err
    kinds = {fault.kind for truth in read_ground_truth(tmp_path / "out").values() for fault in truth.faults}
    assert len(kinds) == 2
    assert not any("instruction" in kind for kind in kinds)
