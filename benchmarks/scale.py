"""How time and memory grow with a dataset: ``ptr info``, the start of ``ptr train``, and screening.

python benchmarks/scale.py [--episodes 1000 10000] [--frames 100] [--tasks 10 1000] prints a Markdown table. Each row is
a process of its own, forked from one that has imported everything; the datasets have states and actions alone, in
LeRobot's v3.0 layout, and are written directly.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WIDTH = 4
FPS = 10
EPISODES_PER_FILE = 1000


def write_dataset(root: Path, episodes: int, frames: int, tasks: int) -> Path:
    """Episodes that wander, each its own way, in files of a thousand."""
    (root / "meta/episodes/chunk-000").mkdir(parents=True)
    (root / "data/chunk-000").mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(_info(episodes, frames, tasks)))
    texts = [f"move to place {number}" for number in range(tasks)]
    pq.write_table(pa.table({"task_index": list(range(tasks)), "task": texts}), root / "meta/tasks.parquet")
    for first in range(0, episodes, EPISODES_PER_FILE):
        numbers = np.arange(first, min(first + EPISODES_PER_FILE, episodes))
        file = first // EPISODES_PER_FILE
        pq.write_table(_rows(numbers, frames, tasks), root / f"data/chunk-000/file-{file:03d}.parquet")
        pq.write_table(
            _episodes(numbers, frames, texts, file), root / f"meta/episodes/chunk-000/file-{file:03d}.parquet"
        )
    return root


def _info(episodes: int, frames: int, tasks: int) -> dict:
    vector = {"dtype": "float32", "shape": [WIDTH], "names": None}
    numbers = {
        key: {"dtype": "int64", "shape": [1], "names": None} for key in ("frame_index", "episode_index", "index")
    }
    return {
        "codebase_version": "v3.0",
        "robot_type": "metaworld",
        "total_episodes": episodes,
        "total_frames": episodes * frames,
        "total_tasks": tasks,
        "fps": FPS,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": None,
        "features": {
            "observation.state": vector,
            "action": vector,
            "timestamp": {"dtype": "float32", "shape": [1], "names": None},
            "task_index": {"dtype": "int64", "shape": [1], "names": None},
            **numbers,
        },
    }


def _rows(numbers: np.ndarray, frames: int, tasks: int) -> pa.Table:
    generator = np.random.default_rng(int(numbers[0]))
    actions = generator.normal(size=(len(numbers), frames, WIDTH)).astype("f4")
    states = generator.normal(size=(len(numbers), 1, WIDTH)).astype("f4") + 0.1 * actions.cumsum(axis=1)
    steps = np.tile(np.arange(frames), len(numbers))
    episode = np.repeat(numbers, frames)
    return pa.table(
        {
            "observation.state": pa.FixedSizeListArray.from_arrays(states.reshape(-1), WIDTH),
            "action": pa.FixedSizeListArray.from_arrays(actions.reshape(-1), WIDTH),
            "timestamp": (steps / FPS).astype("f4"),
            "frame_index": steps,
            "episode_index": episode,
            "index": episode * frames + steps,
            "task_index": episode % tasks,
        }
    )


def _episodes(numbers: np.ndarray, frames: int, texts: list[str], file: int) -> pa.Table:
    count = len(numbers)
    return pa.table(
        {
            "episode_index": numbers,
            "tasks": [[texts[number % len(texts)]] for number in numbers],
            "length": np.full(count, frames),
            "data/chunk_index": np.zeros(count, dtype=np.int64),
            "data/file_index": np.full(count, file),
            "dataset_from_index": numbers * frames,
            "dataset_to_index": (numbers + 1) * frames,
        }
    )


def import_everything(folder: Path) -> None:
    """The baseline: much is imported where it is used, so each work is done once on a few short episodes."""
    root = write_dataset(folder / "data", episodes=6, frames=40, tasks=2)
    info(root)
    start_of_training(root)
    screening(root)


def info(root: Path) -> None:
    """What ``ptr info`` computes."""
    from ptr_robot.data.inspect.summary import summarise
    from ptr_robot.data.lerobot.index import open_index

    summarise(open_index(root, skip_bad_episodes=True))


def start_of_training(root: Path) -> None:
    """Up to and including the first step."""
    _train(root, "sft")


def screening(root: Path) -> None:
    """The start of training with the method that screens first."""
    _train(root, "screened")


def _train(root: Path, method: str) -> None:
    from ptr_robot.policy.vla.registration import VLAChoice
    from ptr_robot.train.config import DatasetConfig, TrainConfig
    from ptr_robot.train.loop import train

    train(
        TrainConfig(
            dataset=DatasetConfig(repo_id=str(root), num_chunks=2, cache_dir=str(root.parent / "cache")),
            policy=VLAChoice(preset="micro-state", device="cpu"),
            method=method,
            output_dir=str(root.parent / f"run-{method}-{time.time_ns()}"),
            steps=1,
            num_workers=0,
        )
    )


def measure(work: Callable[[Path], None], root: Path) -> tuple[float, float]:
    """Seconds of processor time, and peak memory in MiB beyond what was there, of the work in a process of its own."""
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=_measured, args=(work, root, results))
    process.start()
    measured: tuple[float, float] = results.get()
    process.join()
    return measured


def _measured(work: Callable[[Path], None], root: Path, results: multiprocessing.SimpleQueue) -> None:
    before, started = _peak_memory(), time.process_time()
    work(root)
    results.put((time.process_time() - started, _peak_memory() - before))


def _peak_memory() -> float:
    """In MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--works", nargs="+", default=["info", "start_of_training", "screening"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        import_everything(Path(folder))
    print(f"{_peak_memory():.0f} MiB with everything imported and used once\n")
    print("| episodes | tasks | | seconds | MiB beyond the imports |")
    print("|---|---|---|---|---|", flush=True)
    for episodes in options.episodes:
        for tasks in options.tasks:
            with tempfile.TemporaryDirectory() as folder:
                root = write_dataset(Path(folder) / "data", episodes, options.frames, tasks)
                for name in options.works:
                    seconds, memory = measure(globals()[name], root)
                    print(f"| {episodes} | {tasks} | {name} | {seconds:.1f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
