"""Damaged files through the command itself: exit code 0, or 1 with one line; scores, marks and weights among them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from ptr_robot.audit.score_files import EPISODES_FILE, FRAMES_FILE, SUMMARY_FILE
from ptr_robot.audit.scored import score_dataset
from ptr_robot.lerobot.frame_weights import read_frame_weights, read_verdicts

from ..train.datasets import record_dataset
from .conftest import fuzz_settings, needs_time, slow_fuzz_settings
from .mutations import tables, texts, turned

pytestmark = needs_time
LENGTHS = (9, 8, 9, 10)
DATA = "data/chunk-000/file-000.parquet"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return record_dataset(tmp_path_factory.mktemp("commands") / "arm", lengths=LENGTHS)


@pytest.fixture(scope="module")
def scores(data) -> Path:
    score_dataset(data, vision="none", num_seeds=1, num_folds=2, chunk_length=4).save(data.parent / "scores")
    return data.parent / "scores"


def content_of(damaged, folder: Path) -> bytes:
    """The bytes of a damaged table."""
    if isinstance(damaged, bytes):
        return damaged
    pq.write_table(damaged, folder / "damaged.parquet")
    return (folder / "damaged.parquet").read_bytes()


@pytest.mark.parametrize("verb", ["info", "score", "corrupt", "train"])
@pytest.mark.parametrize("name", ["meta/info.json", DATA])
def test_a_damaged_dataset(probe, data, tmp_path, verb, name):
    """What each verb does with one file of it damaged."""
    flags = {
        "info": [],
        "score": ["--vision=none", "--num_seeds=1", "--num_folds=2", "--chunk_length=4"],
        "corrupt": ["--kind=ani"],
        "train": ["--policy.preset=micro-state", "--policy.chunk_length=4", "--policy.device=cpu", "--steps=1"],
    }[verb]
    damaged = texts(json.loads((data / name).read_text())) if name.endswith("json") else tables(data / name)

    @(slow_fuzz_settings if verb == "train" else fuzz_settings)
    @given(damaged | turned((data / name).read_bytes()))
    def run(content):
        shutil.rmtree(tmp_path / "work", ignore_errors=True)
        root = shutil.copytree(data, tmp_path / "work/data")
        (root / name).write_bytes(content_of(content, tmp_path))
        output = [] if verb == "info" else [f"--output_dir={tmp_path / 'work/new'}"]
        more = [f"--dataset.cache_dir={tmp_path / 'work/cache'}", "--num_workers=0"] if verb == "train" else []
        place = f"--dataset.repo_id={root}" if verb == "train" else str(root)
        probe.command(verb, place, *output, *flags, *more)

    run()


@pytest.mark.parametrize("name", [EPISODES_FILE, FRAMES_FILE, SUMMARY_FILE, "marks.json"])
def test_damaged_scores_and_marks(probe, data, scores, tmp_path, name):
    folder = shutil.copytree(scores, tmp_path / "scores")
    marks = {"format": 1, "verdicts": {"1": "drop"}}
    (folder / "marks.json").write_text(json.dumps(marks))
    is_table = name.endswith("parquet")
    damaged = tables(scores / name) if is_table else texts(json.loads((folder / name).read_text()))

    @fuzz_settings
    @given(damaged | turned((folder / name).read_bytes()))
    def run(content):
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        (folder / name).write_bytes(content_of(content, tmp_path))
        output = [f"--output_dir={tmp_path / 'new'}", "--copy_dataset=false"]
        probe.command("export", str(data), f"--scores={folder}", f"--verdicts={folder / 'marks.json'}", *output)

    run()


@pytest.mark.parametrize("name", [EPISODES_FILE, FRAMES_FILE])
def test_damaged_weights_for_lerobot(probe, scores, tmp_path, name):
    """As LeRobot's own training reads them through the plug-in."""
    starts = np.cumsum([0, *LENGTHS[:-1]])

    @fuzz_settings
    @given(tables(scores / name) | turned((scores / name).read_bytes()))
    def run(content):
        file = tmp_path / name
        file.write_bytes(content_of(content, tmp_path))
        if name == FRAMES_FILE:
            probe(lambda: read_frame_weights(file, sum(LENGTHS), None))
        else:
            probe(lambda: read_verdicts(file, starts, np.array(LENGTHS)))

    run()
