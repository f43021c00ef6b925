"""Damaged datasets, through everything that ``ptr info``, ``ptr train`` and ``ptr corrupt`` read of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.corruptions import corrupt_dataset, paper_corruptions
from ptr_robot.data.ground_truth import GROUND_TRUTH_FILE, EpisodeTruth, read_ground_truth, write_ground_truth
from ptr_robot.data.inspect.summary import summarise
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.segments.dataset import SegmentDataset

from ..data.v21_writer import write_v21
from ..train.datasets import record_dataset
from .conftest import fuzz_settings
from .mutations import tables, texts, turned


@pytest.fixture(scope="module")
def v30(tmp_path_factory) -> Path:
    return record_dataset(tmp_path_factory.mktemp("fuzz") / "arm", lengths=(9, 8), pixels=16)


@pytest.fixture(scope="module")
def v21(tmp_path_factory) -> Path:
    return write_v21(tmp_path_factory.mktemp("fuzz") / "cubes", lengths=(9, 8))


def use(root: Path, folder: Path) -> None:
    """What info and train read, and, where they can, what corrupt does."""
    summarise(open_index(root, skip_bad_episodes=True))
    data = DataConfig(
        sources=[SourceConfig(str(root), robot="metaworld")],
        chunk_length=4,
        num_chunks=2,
        image_size=16,
        cache_dir=str(folder / "cache"),
        skip_bad_episodes=True,
    )
    dataset = SegmentDataset(data)
    dataset[[0, len(dataset) - 1]]
    corrupt_dataset(root, folder / "copy", paper_corruptions("ani"), action_key="action")


def try_file(probe, folder: Path, sound: Path, name: str, content: bytes) -> None:
    """A fresh copy of the dataset with one file replaced."""
    shutil.rmtree(folder / "work", ignore_errors=True)
    root = shutil.copytree(sound, folder / "work/data")
    (root / name).write_bytes(content)
    probe(lambda: use(root, folder / "work"))


def test_info_of_v30(probe, v30, tmp_path):
    @fuzz_settings
    @given(texts(json.loads((v30 / "meta/info.json").read_text())))
    def run(content):
        try_file(probe, tmp_path, v30, "meta/info.json", content)

    run()


def test_info_of_v21(probe, v21, tmp_path):
    @fuzz_settings
    @given(texts(json.loads((v21 / "meta/info.json").read_text())))
    def run(content):
        try_file(probe, tmp_path, v21, "meta/info.json", content)

    run()


@pytest.mark.parametrize("name", ["tasks.jsonl", "episodes.jsonl", "episodes_stats.jsonl"])
def test_lines_of_v21(probe, v21, tmp_path, name):
    lines = [json.loads(line) for line in (v21 / "meta" / name).read_text().splitlines()]

    @fuzz_settings
    @given(texts(lines[0]))
    def run(first):
        rest = "".join(json.dumps(line) + "\n" for line in lines[1:]).encode()
        try_file(probe, tmp_path, v21, f"meta/{name}", first + b"\n" + rest)

    run()


@pytest.mark.parametrize("pattern", ["meta/tasks.parquet", "meta/episodes/*/*.parquet", "data/*/*.parquet"])
def test_tables_of_v30(probe, v30, tmp_path, pattern):
    file = next(v30.glob(pattern))
    name = str(file.relative_to(v30))

    @fuzz_settings
    @given(tables(file) | turned(file.read_bytes()))
    def run(damaged):
        if not isinstance(damaged, bytes):
            pq.write_table(damaged, tmp_path / "damaged.parquet")
            damaged = (tmp_path / "damaged.parquet").read_bytes()
        try_file(probe, tmp_path, v30, name, damaged)

    run()


def test_statistics_of_v30(probe, v30, tmp_path):
    @fuzz_settings
    @given(texts(json.loads((v30 / "meta/stats.json").read_text())))
    def run(content):
        try_file(probe, tmp_path, v30, "meta/stats.json", content)

    run()


def test_ground_truth(probe, v21, tmp_path):
    root = shutil.copytree(v21, tmp_path / "data")
    write_ground_truth(root, [EpisodeTruth(0), EpisodeTruth(1)])
    lines = (root / GROUND_TRUTH_FILE).read_text().splitlines()

    @fuzz_settings
    @given(texts(json.loads(lines[0])))
    def run(first):
        (root / GROUND_TRUTH_FILE).write_bytes(first + b"\n" + lines[1].encode())
        probe(lambda: read_ground_truth(root))

    run()


def test_videos(probe, v21, tmp_path):
    name = "videos/chunk-000/observation.images.front/episode_000000.mp4"

    @fuzz_settings
    @given(turned((v21 / name).read_bytes()) | st.binary(max_size=64))
    def run(content):
        try_file(probe, tmp_path, v21, name, content)

    run()
