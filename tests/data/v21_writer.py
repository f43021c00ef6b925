"""Writes small LeRobot datasets in the v2.1 layout, which LeRobot itself no longer writes."""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FPS = 10
CAMERA = "observation.images.front"
TASKS = ("push the cube", "lift the cube")
LENGTHS = (23, 40, 17, 31)


def episode_values(episode: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """States and actions (length, 4) that tell episode, frame and dimension apart."""
    generator = np.random.default_rng(episode)
    return generator.normal(size=(length, 4)).astype("f4"), generator.normal(size=(length, 4)).astype("f4")


def write_table(path: Path, episode: int, states, actions, first_index: int, fps: float = FPS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    length = len(states)
    columns = {
        "observation.state": pa.array(list(states), type=pa.list_(pa.float32(), 4)),
        "action": pa.array(list(actions), type=pa.list_(pa.float32(), 4)),
        "timestamp": pa.array((np.arange(length) / fps).astype("f4")),
        "frame_index": pa.array(np.arange(length)),
        "episode_index": pa.array(np.full(length, episode)),
        "index": pa.array(np.arange(length) + first_index),
        "task_index": pa.array(np.full(length, episode % len(TASKS))),
    }
    pq.write_table(pa.table(columns), path)


def write_video(path: Path, episode: int, length: int, fps: int = FPS, size: tuple[int, int] = (48, 64)) -> None:
    """A bright block that moves, on a background that tells the episode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"g": "4", "bf": "0"})
        stream.height, stream.width = size
        stream.pix_fmt = "yuv420p"
        for frame in range(length):
            picture = np.full((*size, 3), 20 + 40 * episode, dtype=np.uint8)
            picture[8:24, frame : frame + 12] = (255, 5 * frame % 256, 30)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def table_path(root: Path, episode: int) -> Path:
    return root / f"data/chunk-000/episode_{episode:06d}.parquet"


def video_path(root: Path, episode: int) -> Path:
    return root / f"videos/chunk-000/{CAMERA}/episode_{episode:06d}.mp4"


def write_v21(root: Path, lengths=LENGTHS, robot_type: str = "metaworld") -> Path:
    """A sound dataset; its tests then break what they need broken."""
    vector = {"dtype": "float32", "shape": [4], "names": ["x", "y", "z", "gripper"]}
    features = {
        "observation.state": vector,
        "action": vector,
        CAMERA: {"dtype": "video", "shape": [48, 64, 3], "names": ["height", "width", "channel"]},
    }
    for key, dtype in (("timestamp", "float32"), ("frame_index", "int64"), ("episode_index", "int64")):
        features[key] = {"dtype": dtype, "shape": [1], "names": None}
    for key in ("index", "task_index"):
        features[key] = {"dtype": "int64", "shape": [1], "names": None}
    info = {
        "codebase_version": "v2.1",
        "robot_type": robot_type,
        "total_episodes": len(lengths),
        "total_frames": sum(lengths),
        "total_tasks": len(TASKS),
        "total_videos": len(lengths),
        "total_chunks": 1,
        "chunks_size": 1000,
        "fps": FPS,
        "splits": {"train": f"0:{len(lengths)}"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": features,
    }
    (root / "meta").mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(info))
    _write_lines(root / "meta/tasks.jsonl", [{"task_index": i, "task": task} for i, task in enumerate(TASKS)])
    episodes, statistics, first_index = [], [], 0
    for episode, length in enumerate(lengths):
        states, actions = episode_values(episode, length)
        write_table(table_path(root, episode), episode, states, actions, first_index)
        write_video(video_path(root, episode), episode, length)
        episodes.append({"episode_index": episode, "tasks": [TASKS[episode % len(TASKS)]], "length": length})
        statistics.append({"episode_index": episode, "stats": _statistics(states, actions)})
        first_index += length
    _write_lines(root / "meta/episodes.jsonl", episodes)
    _write_lines(root / "meta/episodes_stats.jsonl", statistics)
    return root


def add_rewards(root: Path, value: float, lengths=LENGTHS) -> None:
    """A feature that nothing here uses, with one value in every frame."""
    for episode in range(len(lengths)):
        path = table_path(root, episode)
        table = pq.read_table(path)
        rewards = pa.array(np.full(len(table), value, dtype="f4"))
        pq.write_table(table.append_column("next.reward", rewards), path)
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["next.reward"] = {"dtype": "float32", "shape": [1], "names": None}
    (root / "meta/info.json").write_text(json.dumps(info))


def _statistics(states, actions) -> dict:
    return {
        key: {name: getattr(values, name)(axis=0).tolist() for name in ("min", "max", "mean", "std")}
        | {"count": [len(values)]}
        for key, values in (("observation.state", states), ("action", actions))
    }


def _write_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
