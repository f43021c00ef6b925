"""A recorded dataset, its corrupted copies, and what is read of them to compare the two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest

from ptr_robot.data.corruptions import corrupt_dataset, paper_corruptions
from ptr_robot.data.ground_truth import Fault, read_ground_truth
from ptr_robot.data.lerobot.compat import is_lerobot06

FPS = 10
LENGTHS = (40, 23, 31, 57, 20, 44, 36, 29, 50, 33)
INSTRUCTIONS = ("open the door", "press the button", "lift the cube")
CAMERA = "observation.images.front"


def _h264() -> dict[str, Any]:
    """What ``create`` takes to record with a codec that encodes quickly."""
    if not is_lerobot06():
        return {"vcodec": "h264"}
    from lerobot.configs.video import RGBEncoderConfig

    return {"rgb_encoder": RGBEncoderConfig(vcodec="h264")}


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """Ten episodes as LeRobot records them; the brightness of a frame tells its episode and its time."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = tmp_path_factory.mktemp("source") / "mixed"
    features = {
        "observation.state": {"dtype": "float32", "shape": (2,), "names": None},
        "action": {"dtype": "float32", "shape": (3,), "names": None},
        CAMERA: {"dtype": "video", "shape": (64, 64, 3), "names": ["height", "width", "channels"]},
    }
    dataset = LeRobotDataset.create("owner/mixed", fps=FPS, features=features, root=root, **_h264())
    dataset.meta.update_chunk_settings(data_files_size_in_mb=0.01, video_files_size_in_mb=0.01)  # several files
    generator = np.random.default_rng(1)
    for episode, length in enumerate(LENGTHS):
        for frame in range(length):
            values = generator.normal(size=3) * (1, 20, 0)  # the last dimension never moves
            dataset.add_frame(
                {
                    "observation.state": generator.normal(size=2).astype("f4"),
                    "action": values.astype("f4"),
                    CAMERA: np.full((64, 64, 3), 10 + 15 * episode + frame, dtype=np.uint8),
                    "task": INSTRUCTIONS[episode % 3],
                }
            )
        dataset.save_episode()
    dataset.finalize()
    assert len(list(root.glob("data/*/*.parquet"))) > 1
    assert len(list(root.glob("videos/*/*/*.mp4"))) > 1
    return root


@pytest.fixture(scope="module")
def corrupted(source, tmp_path_factory):
    """Each kind's dataset, made once."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("corrupted") / kind
            corrupt_dataset(source, made[kind], paper_corruptions(kind), seed=2)
        return made[kind]

    return make


def rows(root: Path) -> dict[int, pandas.DataFrame]:
    files = sorted(root.glob("data/*/*.parquet"))
    frames = pandas.concat([pandas.read_parquet(file) for file in files], ignore_index=True)
    return dict(iter(frames.groupby("episode_index")))


def episode_rows(root: Path) -> dict[int, dict]:
    tables = [pq.read_table(file, partitioning=None) for file in sorted(root.glob("meta/episodes/*/*.parquet"))]
    return {row["episode_index"]: row for table in tables for row in table.to_pylist()}


def column(root: Path, key: str) -> np.ndarray:  # (frames, dimensions)
    """One column of the whole dataset."""
    parts = [np.stack(frame[key]) for frame in rows(root).values()]
    return np.concatenate(parts).reshape(sum(map(len, parts)), -1)


def faults(root: Path, kind: str) -> dict[int, Fault]:
    truths = read_ground_truth(root)
    return {n: fault for n, truth in truths.items() for fault in truth.faults if fault.kind == kind}


def same(before: pandas.DataFrame, after: pandas.DataFrame, *but: str) -> bool:
    """Bit for bit, but for some columns."""
    kept = [column for column in before if column not in but]
    return all(
        np.stack(before[column]).tobytes() == np.stack(after[column])[: len(before)].tobytes() for column in kept
    )


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
