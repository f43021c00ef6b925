"""Tiny runs of the commands that write, what each leaves, and how that is compared."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from ptr_robot.data.cache.tables import open_tables
from ptr_robot.data.corruptions import corrupt_dataset, paper_corruptions
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.policy.vla.registration import VLAChoice
from ptr_robot.study.engine import runner
from ptr_robot.study.engine.job_workers import JobResult
from ptr_robot.study.engine.jobs import Job
from ptr_robot.train.checkpoint_folders import latest_checkpoint
from ptr_robot.train.config import DatasetConfig, TrainConfig
from ptr_robot.train.loop import train
from ptr_robot.train.records import read_records

from .harness import run_command

TIMES = {"steps_per_second", "data_wait_share"}
STUDY = {
    "name": "faults",
    "question": "Does it go on?",
    "tasks": ["reach"],
    "seeds": [0],
    "demonstrations": {"episodes": 2, "match_lengths": False, "images": False},
    "settings": {"mixed": {"operators": {"brisk": 1, "jittery": 1}}},
    "policy": {"preset": "micro-state", "chunk_length": 4, "num_chunks": 2},
    "training": {"steps": 1, "batch_size": 2, "log_freq": 1},
    "evaluation": {"episodes": 1, "max_steps": 4, "n_action_steps": 4},
    "methods": ["filter-knn"],
}


@dataclass(frozen=True)
class Scenario:
    """A command, what it leaves, and how that is compared."""

    run: Callable[[Path], None]  # in an own folder
    result: Callable[[Path], object]


def tree(root: Path, *left_out: str) -> dict[str, bytes]:
    """Every file but locks, whose content means nothing, and those of other names that are left out."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(root)): path.read_bytes() for path in files if path.name not in left_out}


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

    return Scenario(run, tree)


def cache_run(data: Path) -> Scenario:
    def run(folder: Path) -> None:
        open_tables(open_index(data), "observation.state", "action", folder)

    return Scenario(run, tree)


def collect_run(data: Path) -> Scenario:
    flags = ["--env.task=reach", "--episodes=2", "--operators={brisk: 1}", "--match_lengths=false", "--num_workers=1"]

    def run(folder: Path) -> None:
        if not (folder / "new").exists():  # a recording that is there is whole
            run_command(["collect", str(folder / "new"), "--images=false", *flags])

    return Scenario(run, tree)


def score_run(data: Path) -> Scenario:
    flags = ["--vision=thumbnails", "--num_seeds=1", "--num_folds=2", "--chunk_length=4"]

    def run(folder: Path) -> None:
        run_command(
            ["score", str(data), f"--output_dir={folder / 'scores'}", f"--cache_dir={folder / 'cache'}", *flags]
        )

    return Scenario(run, lambda folder: tree(folder, "ptr_score.log"))


def study_run(data: Path) -> Scenario:
    """In one process: what the workers of a study do is watched as well."""
    file = data.parent / "study.yaml"
    file.write_text(yaml.safe_dump(STUDY))

    def run(folder: Path) -> None:
        runner.JobWorker, runner.first_ready = InlineWorker, lambda workers, _: [w for w in workers if w.job]
        run_command(["study", str(file), f"--output_dir={folder}", "--num_workers=1"])

    def result(folder: Path) -> object:
        # Not the cache: its names hold when the demonstrations were recorded.
        made = {name: tree(folder / name) for name in ("demonstrations", "rules", "runs", "figures")}
        records = {
            str(file.relative_to(folder)): _without_seconds(json.loads(file.read_text()))
            for file in (*sorted(folder.glob("records/**/*.json")), folder / "results.json")
        }
        return made, records, sorted(path.name for path in folder.iterdir())

    return Scenario(run, result)


def _without_seconds(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_seconds(inner) for name, inner in value.items() if "seconds" not in name}
    return [_without_seconds(inner) for inner in value] if isinstance(value, list) else value


class InlineWorker:
    """Takes the place of a study's worker process, so that one audit hook sees every call."""

    is_alive = True

    def __init__(self, number: int, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self.job: Job | None = None

    def give(self, job: Job) -> None:
        self.job = job

    def result(self) -> JobResult:
        job, self.job = self.job, None
        try:
            job.run()
        except Exception as error:
            return JobResult(job, 0.0, str(error))
        return JobResult(job, 0.0)

    def dismiss(self) -> None:
        pass

    def join(self) -> None:
        pass


SCENARIOS = {
    "train": train_run,
    "corrupt": corrupt_run,
    "cache": cache_run,
    "collect": collect_run,
    "score": score_run,
    "study": study_run,
}
