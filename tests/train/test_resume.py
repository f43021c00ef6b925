"""A run that is ended by a signal and resumed is, bit for bit, the run that was not."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from datetime import datetime
from importlib import resources
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ptr_robot.errors import ConfigError, DataError, PTRError
from ptr_robot.train.build import build_parts
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.config import OptimizerConfig, resolve
from ptr_robot.train.episode_records import EpisodeLedger
from ptr_robot.train.interruption import StopRequest
from ptr_robot.train.loop import train
from ptr_robot.train.records import read_records
from ptr_robot.train.sources import check_same_sources

from . import worker
from .conftest import STEPS

TIMES = {"steps_per_second", "data_wait_share"}


@pytest.fixture(scope="module")
def whole_run(state_data, tmp_path_factory):
    """The uninterrupted runs by method, made when first asked for."""
    made: dict[str, Path] = {}

    def get(method: str, config) -> Path:
        if method not in made:
            folder = tmp_path_factory.mktemp("whole") / "run"
            train(dataclasses.replace(config, output_dir=str(folder)))
            made[method] = folder
        return made[method]

    return get


def assert_same_run(run: Path, other: Path) -> None:
    last, other_last = latest_checkpoint(run), latest_checkpoint(other)
    assert last.name == other_last.name == f"{STEPS:06d}"
    files = sorted(path.relative_to(last) for path in last.rglob("*.safetensors"))
    assert len(files) >= 4
    for file in files:
        tensors, expected = load_file(last / file), load_file(other_last / file)
        assert tensors.keys() == expected.keys()
        for name, tensor in tensors.items():
            place = f"{file}: {name}"
            torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0, equal_nan=True, msg=place)
    records, expected_records = (
        [{name: value for name, value in record.items() if name not in TIMES} for record in read_records(folder)]
        for folder in (run, other)
    )
    assert records == expected_records
    assert (run / "episode_scores.parquet").read_bytes() == (other / "episode_scores.parquet").read_bytes()


def end_by(number: signal.Signals, config, processes, after_steps: int, to_all: bool = False) -> int:
    process = processes.Process(target=worker.train_and_signal_self, args=(config, after_steps, number, to_all))
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize("method", ["ptr", "sft", "screened"])
def test_sigterm_finishes_the_step_saves_and_resumes(settings, processes, whole_run, method):
    config = settings(method=method)
    run = Path(config.output_dir)
    assert end_by(signal.SIGTERM, config, processes, after_steps=3) == 128 + signal.SIGTERM
    assert latest_checkpoint(run).name == "000004"
    train(dataclasses.replace(config, resume=True))
    assert_same_run(run, whole_run(method, config))


def test_ctrl_c_saves(settings, processes):
    config = settings()
    assert end_by(signal.SIGINT, config, processes, after_steps=1) == 130
    assert latest_checkpoint(Path(config.output_dir)).name == "000002"


def test_sigkill_resumes_from_the_last_checkpoint(settings, processes, whole_run):
    config = settings()
    run = Path(config.output_dir)
    assert end_by(signal.SIGKILL, config, processes, after_steps=4) == -signal.SIGKILL
    assert latest_checkpoint(run).name == "000003"
    assert [record["step"] for record in read_records(run)] == [2, 4]
    train(dataclasses.replace(config, resume=True))
    assert_same_run(run, whole_run("ptr", config))
    assert (run / "checkpoints" / "last").resolve().name == f"{STEPS:06d}"
    starts = json.loads((run / "run.json").read_text())["starts"]
    assert [start["first_step"] for start in starts] == [0, 3]


def test_a_run_that_ended_before_its_scores_were_written_has_them_once_resumed(settings, whole_run, monkeypatch):
    config = settings(save_freq=STEPS)
    run = Path(config.output_dir)

    def end(self, totals, file):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EpisodeLedger, "write", end)
        with pytest.raises(KeyboardInterrupt):
            train(config)
    assert latest_checkpoint(run).name == f"{STEPS:06d}"
    assert train(dataclasses.replace(config, resume=True)).exit_code == 0
    assert_same_run(run, whole_run("ptr", settings()))


def test_a_stated_checkpoint_is_the_one_resumed_from(settings, whole_run):
    config = settings()
    train(config)
    run = Path(config.output_dir)
    train(dataclasses.replace(config, resume=True), checkpoint=run / "checkpoints" / "000003")
    assert_same_run(run, whole_run("ptr", config))


def test_resuming_goes_on_from_what_was_saved_last(settings):
    """After a resume from an earlier checkpoint that is not the one with the highest step."""
    config = settings()
    run = train(config).output_dir
    train(dataclasses.replace(config, resume=True, steps=STEPS - 1), checkpoint=run / "checkpoints" / "000003")
    assert latest_checkpoint(run) == (run / "checkpoints" / f"{STEPS - 1:06d}").resolve()
    (run / "checkpoints" / "last").unlink()  # an older run, or one that was copied without its links
    assert latest_checkpoint(run).name == f"{STEPS:06d}"


@pytest.mark.parametrize("changes", [{"steps": 2 * STEPS}, {"optimizer": OptimizerConfig(lr=1e-5)}])
def test_a_resumed_run_has_the_rates_of_its_own_settings(settings, changes):
    """More steps or another rate: the curve is the one that such a run would have had from its beginning."""
    config = dataclasses.replace(settings(method="sft"), log_freq=1)
    run = train(config).output_dir
    changed = dataclasses.replace(config, **changes)
    train(dataclasses.replace(changed, resume=True), checkpoint=run / "checkpoints" / "000003")
    other = dataclasses.replace(changed, output_dir=str(run.parent / "whole"))
    train(other)
    rates, expected = (
        {record["step"]: record["learning_rate"] for record in read_records(Path(folder)) if record["step"] > 3}
        for folder in (run, other.output_dir)
    )
    assert rates == expected


def test_a_resumed_run_may_not_change_its_batches(settings):
    config = settings(steps=2)
    train(config)
    with pytest.raises(ConfigError, match="global_batch_size was 4 and is now 2"):
        train(dataclasses.replace(config, resume=True, batch_size=2, steps=4))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("right_", "left_", "slots"),  # another arm
        ("state:\n  - {slot: right_eef_position", "state:\n  - {slot: left_eef_position", "slots"),
    ],
)
def test_a_resumed_run_may_not_change_its_robot(settings, tmp_path, old, new, words):
    config = settings(steps=1)
    train(config)
    text = (resources.files("ptr_robot.data.robots") / "metaworld.yaml").read_text()
    (tmp_path / "other.yaml").write_text(text.replace(old, new))
    dataset = dataclasses.replace(config.dataset, robot=str(tmp_path / "other.yaml"))
    with pytest.raises(PTRError, match=words):
        train(dataclasses.replace(config, resume=True, steps=2, dataset=dataset))


def test_sources_are_the_same_when_their_maps_and_cameras_are(settings):
    (record,) = build_parts(resolve(settings(), datetime.now())).sources
    check_same_sources([record], [dataclasses.replace(record, name="moved")])
    for changes in ({"cameras": ("observation.images.top",)}, {"action_map": record.state_map}):
        with pytest.raises(ConfigError, match="was another one when the run began"):
            check_same_sources([record], [dataclasses.replace(record, **changes)])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_process_group_saves_too(settings, processes, number):
    """As a scheduler, a container or Ctrl-C sends it: data workers must not fall before the step is saved."""
    config = settings(method="sft", num_workers=2)
    assert end_by(number, config, processes, after_steps=2, to_all=True) == 128 + number
    assert latest_checkpoint(Path(config.output_dir)).name == "000003"


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        ("run.json", "[]", "run.json is damaged"),
        ("records.jsonl", '{"step": 1}\n{"st\n', "records.jsonl: line 2 is damaged"),
        ("checkpoints/last/training_state/state.json", "{}", "state.json is damaged .loader, scheduler, step missing"),
    ],
)
def test_a_damaged_file_of_the_run_is_named(settings, place, text, message):
    config = settings(method="sft", steps=2)
    train(config)
    (Path(config.output_dir) / place).write_text(text)
    with pytest.raises(DataError, match=message):
        train(dataclasses.replace(config, resume=True, steps=4))


def test_a_signal_in_the_last_step_ends_a_run_that_is_done(settings, processes):
    config = settings(steps=2)
    assert end_by(signal.SIGTERM, config, processes, after_steps=1) == 0
    assert latest_checkpoint(Path(config.output_dir)).name == "000002"


def test_a_run_in_the_background_goes_on_ignoring_control_c():
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest(torch.device("cpu")) as stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert not stop.is_made()
    finally:
        signal.signal(signal.SIGINT, previous)
