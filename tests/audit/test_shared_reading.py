"""Pictures are read once: by a run that was stopped and goes on, and by several processes together."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ptr_robot.audit.scoring import ScoreSettings
from ptr_robot.audit.shared_reading import read_share
from ptr_robot.cli.main import run
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.scorers import looks
from tests.train.datasets import record_dataset

LENGTHS = (24, 30, 18, 26, 22, 25)
FILES = ("ptr_episodes.parquet", "ptr_frames.parquet", "ptr_score.json")
DOCS = Path(__file__).parents[2] / "docs/score.md"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return record_dataset(tmp_path_factory.mktemp("sets") / "seen", lengths=LENGTHS, pixels=16)


def flags(dataset, output, cache) -> list[str]:
    settings = ["--num_seeds=1", "--chunk_length=4", "--vision=thumbnails", f"--cache_dir={cache}"]
    return [str(dataset), f"--output_dir={output}", *settings]


@pytest.fixture(scope="module")
def alone(dataset, tmp_path_factory):
    """Its cache is removed: the flags, which the summary holds, are used again."""
    folder = tmp_path_factory.mktemp("alone")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run(["score", *flags(dataset, folder / "scores", folder / "cache")]) == 0
    assert printed.getvalue().count("episodes scored") == 1
    (folder / "cache").rename(folder / "used")
    return folder


def assert_same(one: Path, other: Path) -> None:
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_a_stopped_run_goes_on_with_what_was_read(dataset, alone, tmp_path, monkeypatch):
    decode, read = looks.decode_episode, []

    def interrupted(record, *rest):
        if len(read) == 4:
            raise KeyboardInterrupt
        read.append(record.episode_index)
        return decode(record, *rest)

    words = ["score", *flags(dataset, tmp_path / "scores", alone / "cache")]
    monkeypatch.setattr(looks, "decode_episode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(words)
    assert not [name for name in FILES if (tmp_path / "scores" / name).exists()]
    assert (tmp_path / "scores" / "ptr_score.log").read_text().endswith("interrupted: run the same command again\n")
    read.clear()
    assert run(words) == 0
    assert len(read) == len(LENGTHS) - 4
    assert_same(tmp_path / "scores", alone / "scores")


def test_each_process_reads_its_share(dataset, tmp_path):
    index, settings = open_index(dataset), ScoreSettings(vision="thumbnails", cache_dir=str(tmp_path))
    for rank, count in ((1, 3), (0, 6)):
        read_share(index, settings, rank, 2)
        assert len(list((tmp_path / "looks").glob("*.npy"))) == count
    read_share(index, ScoreSettings(vision="none", cache_dir=str(tmp_path / "none")), 0, 2)
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_two_processes_write_what_one_writes(dataset, alone, tmp_path):
    """Started as docs/score.md spells it; each with one thread, by which sums may differ in their last bits."""
    line = next(line for line in DOCS.read_text().splitlines() if line.startswith("accelerate launch "))
    words = line.partition(" -m ")[0].split()
    launcher = [str(Path(sys.executable).parent / words[0]), *words[1:], "--main_process_port=0"]
    launched = {name for name in os.environ if re.match(r"(LOCAL_)?(RANK|WORLD_SIZE)$|MASTER_", name)}
    environment = {name: value for name, value in os.environ.items() if name not in launched} | {"OMP_NUM_THREADS": "1"}
    shutil.rmtree(alone / "cache", ignore_errors=True)  # of the run that was stopped
    command = [*launcher, "-m", "ptr_robot.cli.main", "score", *flags(dataset, tmp_path / "two", alone / "cache")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("episodes scored") == 1
    assert len(list((alone / "cache" / "looks").glob("*.npy"))) == len(LENGTHS)
    assert_same(alone / "scores", tmp_path / "two")
