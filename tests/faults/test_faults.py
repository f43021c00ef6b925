"""Every file-system call may be the last: the same command again gives what an undisturbed run gives.

The suite strikes at a few calls of each scenario; ``make faults`` at all of them, and prints how many there were.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ptr_robot.data.cache.tables import open_tables
from ptr_robot.data.corruptions import corrupt_dataset, paper_corruptions
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.train.checkpoint import latest_checkpoint
from ptr_robot.train.config import DatasetConfig, TrainConfig
from ptr_robot.train.loop import train
from ptr_robot.train.records import read_records

from ..train.datasets import record_dataset
from .harness import Call, list_calls, run_forked, strike

STRIKES_IN_SUITE = 4  # calls of a scenario
IS_THOROUGH = os.environ.get("PTR_ROBOT_FAULTS") == "all"
pytestmark = pytest.mark.skipif("PTR_ROBOT_FAULTS" not in os.environ, reason="takes minutes: run it with make faults")
TIMES = {"steps_per_second", "data_wait_share"}


@dataclass(frozen=True)
class Scenario:
    """A command, what it leaves, and how that is compared."""

    run: Callable[[Path], None]  # in an own folder
    result: Callable[[Path], object]


def tree(root: Path) -> dict[str, bytes]:
    """Every file but locks, whose content means nothing."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def train_run(data: Path) -> Scenario:
    def run(folder: Path) -> None:
        config = TrainConfig(
            dataset=DatasetConfig(repo_id=str(data), num_chunks=2, cache_dir=str(folder / "cache")),
            policy=VLAChoice(preset="micro-state", chunk_length=4, device="cpu"),
            method="sft",
            output_dir=str(folder / "run"),
            steps=2,
            batch_size=2,
            num_workers=0,
            log_freq=1,
            save_freq=1,
        )
        train(dataclasses.replace(config, resume=latest_checkpoint(folder / "run") is not None))

    def result(folder: Path) -> object:
        checkpoint = latest_checkpoint(folder / "run")
        records = [{k: v for k, v in record.items() if k not in TIMES} for record in read_records(folder / "run")]
        files = {name: content for name, content in tree(checkpoint).items() if name.endswith(".safetensors")}
        leftovers = [path for path in folder.rglob("*.partial*") if path.exists()]
        scores = (folder / "run/episode_scores.parquet").read_bytes()
        state = json.loads((checkpoint / "training_state/state.json").read_text())
        return checkpoint.name, records, files, leftovers, scores, state, tree(folder / "cache")

    return Scenario(run, result)


def corrupt_run(data: Path) -> Scenario:
    def run(folder: Path) -> None:
        if not (folder / "copy").exists():  # a copy that is there is whole
            corrupt_dataset(data, folder / "copy", paper_corruptions("combined"), seed=3)

    return Scenario(run, lambda folder: tree(folder))


def cache_run(data: Path) -> Scenario:
    def run(folder: Path) -> None:
        open_tables(open_index(data), "observation.state", "action", folder)

    return Scenario(run, lambda folder: tree(folder))


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return record_dataset(tmp_path_factory.mktemp("faults") / "arm", lengths=(14, 11, 9))


SCENARIOS = {"train": train_run, "corrupt": corrupt_run, "cache": cache_run}


def chosen(calls: tuple[Call, ...]) -> list[Call]:
    """All of them, or a few that are evenly spread."""
    if IS_THOROUGH:
        return list(calls)
    step = max(1, len(calls) // STRIKES_IN_SUITE)
    return list(calls[step // 2 :: step])


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_command_again_gives_what_an_undisturbed_run_gives(name, data, tmp_path, record_property):
    scenario = SCENARIOS[name](data)
    place = tmp_path / "place"  # always the same one: paths are part of some files
    calls = list_calls(lambda: scenario.run(place), place)
    undisturbed = scenario.result(place)
    strikes = 0
    for call in chosen(calls):
        for fault in call.faults:
            shutil.rmtree(place)
            ending = strike(lambda: scenario.run(place), place, call, fault)
            what = f"{name}, call {call.number} of {len(calls)} ({call.event} {call.path}), {fault}"
            assert ending.code in ((0, 1) if fault == "full" else (-9,)), f"{what}: {ending.report}"
            again = run_forked(lambda: scenario.run(place))
            assert again.code == 0, f"{what}: the second run says {again.report}"
            assert scenario.result(place) == undisturbed, what
            strikes += 1
    record_property("counted", f"{len(calls)} file-system calls, {strikes} faults injected, all recovered from")
