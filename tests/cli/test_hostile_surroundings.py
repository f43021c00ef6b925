"""Names, limits and leftovers that no command expects: one line and exit code 1, never a traceback."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from ptr_robot.cli.train import read_flags
from ptr_robot.errors import PTRError
from ptr_robot.train.config_file import CONFIG_FILE
from tests.faults.harness import run_command, run_forked
from tests.train.datasets import record_dataset

LONG_NAME = "n" * 3000
LONG_PATH = "/".join(["d" * 200] * 30)
TRAIN = [
    "--policy.preset=micro-state",
    "--policy.chunk_length=4",
    "--policy.device=cpu",
    "--steps=1",
    "--num_workers=0",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return record_dataset(tmp_path_factory.mktemp("sets") / "arm", lengths=(9, 8, 9, 10))


def complaint_of(capfd, *arguments: str) -> str:
    with pytest.raises(PTRError):
        run_command(list(arguments))
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("ptr: error: ")]
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("place", [LONG_NAME, LONG_PATH])
def test_a_path_that_is_too_long_is_one_line(data, tmp_path, capfd, place):
    for arguments in (
        ["info", place],
        ["info", f"{tmp_path}/{place}"],
        ["score", str(data), f"--output_dir={tmp_path}/{place}", "--num_seeds=1", "--num_folds=2", "--chunk_length=4"],
        ["corrupt", str(data), f"--output_dir={tmp_path}/{place}", "--kind=ani"],
        ["train", f"--dataset.repo_id={data}", f"--output_dir={tmp_path}/{place}", *TRAIN],
        ["train", f"--config_path={place}"],
        ["study", place],
    ):
        assert place[:20] in complaint_of(capfd, *arguments)


@pytest.mark.parametrize("verb", ["info", "score", "corrupt"])
def test_too_few_file_descriptors_are_one_line(data, tmp_path, verb):
    """Where the limit does allow the work, the work is done."""
    output = [] if verb == "info" else [f"--output_dir={tmp_path / 'new'}"]

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
        run_command([verb, str(data), *output])

    ending = run_forked(work)
    assert ending.code in (0, 1), ending.report


@pytest.mark.parametrize("verb", ["info", "corrupt", "train"])
def test_statistics_of_another_width_are_no_traceback(tmp_path, verb):
    root = record_dataset(tmp_path / "wide", lengths=(9, 8), action_size=300)
    file = root / "meta/stats.json"
    statistics = json.loads(file.read_text())
    statistics["action"] = {name: values[:4] for name, values in statistics["action"].items()}
    file.write_text(json.dumps(statistics))
    place = f"--dataset.repo_id={root}" if verb == "train" else str(root)
    output = [] if verb == "info" else [f"--output_dir={tmp_path / 'new'}"]
    ending = run_forked(lambda: run_command([verb, place, *output, *(TRAIN if verb == "train" else [])]))
    assert ending.code in (0, 1), ending.report


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"steps": 5}', "[" * 100_000, '{"dataset": {"a":' * 5000])
def test_settings_without_their_keys_are_one_line(tmp_path, content):
    (tmp_path / "run/checkpoints/000001").mkdir(parents=True)
    (tmp_path / "run" / CONFIG_FILE).write_text(content)
    with pytest.raises(PTRError) as refused:
        read_flags(["--resume=true", f"--output_dir={tmp_path / 'run'}"])
    assert "\n" not in str(refused.value)
