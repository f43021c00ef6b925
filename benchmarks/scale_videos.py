"""Whether reading pictures stays as fast, and as small, with many short video episodes.

python benchmarks/scale_videos.py [--episodes 200 600 2000] [--frames 10] prints a Markdown table: segments a second of
processor time, in the first epoch (which decodes) and in the next one (which reads the cache), in one process. Videos
are in LeRobot's v3.0 layout, fifty episodes a file, a key frame every second frame.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scale import FPS, measure, write_dataset

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.segments.loader import SegmentLoader, make_loader

CAMERA = "observation.images.front"
PIXELS = 64
EPISODES_PER_VIDEO = 50
BATCH = 16


def write_video_dataset(root: Path, episodes: int, frames: int) -> Path:
    """The dataset of the other benchmark, with one camera."""
    write_dataset(root, episodes, frames, tasks=10)
    info = json.loads((root / "meta/info.json").read_text())
    info["video_path"] = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
    info["features"][CAMERA] = {"dtype": "video", "shape": [PIXELS, PIXELS, 3], "names": None}
    (root / "meta/info.json").write_text(json.dumps(info))
    for file in sorted((root / "meta/episodes").rglob("*.parquet")):
        pq.write_table(_with_spans(pq.read_table(file), frames), file)
    for number in range(-(-episodes // EPISODES_PER_VIDEO)):
        count = min(EPISODES_PER_VIDEO, episodes - number * EPISODES_PER_VIDEO)
        _write_video(root / f"videos/{CAMERA}/chunk-000/file-{number:03d}.mp4", count * frames, number)
    return root


def _with_spans(table: pa.Table, frames: int) -> pa.Table:
    numbers = table["episode_index"].to_numpy()
    starts = (numbers % EPISODES_PER_VIDEO) * frames / FPS
    columns = {
        "chunk_index": np.zeros(len(numbers), dtype=np.int64),
        "file_index": numbers // EPISODES_PER_VIDEO,
        "from_timestamp": starts,
        "to_timestamp": starts + frames / FPS,
    }
    for name, values in columns.items():
        table = table.append_column(f"videos/{CAMERA}/{name}", pa.array(values))
    return table


def _write_video(path: Path, frames: int, seed: int) -> None:
    """A square that wanders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"g": "2", "preset": "ultrafast"})
        stream.width = stream.height = PIXELS
        stream.pix_fmt = "yuv420p"
        for number in range(frames):
            picture = np.full((PIXELS, PIXELS, 3), (37 * seed) % 200, dtype=np.uint8)
            place = number % (PIXELS - 8)
            picture[place : place + 8, place : place + 8] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def open_loader(root: Path) -> SegmentLoader:
    config = DataConfig(
        [SourceConfig(str(root))],
        chunk_length=4,
        num_chunks=1,
        stride=4,
        image_size=PIXELS,
        cache_dir=str(root.parent / "cache"),
    )
    return make_loader(config, BATCH, num_workers=0, drop_last=False)


def start(root: Path) -> None:
    """Open the dataset: every episode is checked against its video."""
    open_loader(root)


def epoch(root: Path) -> None:
    """Open the dataset and read everything once."""
    for _ in open_loader(root):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, nargs="+", default=[200, 600, 2000])
    parser.add_argument("--frames", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        epoch(write_video_dataset(Path(folder) / "data", 4, options.frames))  # imports what is imported on first use
    print("| episodes | segments | seconds to open | segments/s, decoding | segments/s, from the cache | MiB |")
    print("|---|---|---|---|---|---|", flush=True)
    for episodes in options.episodes:
        with tempfile.TemporaryDirectory() as folder:
            root = write_video_dataset(Path(folder) / "data", episodes, options.frames)
            opening, _ = measure(start, root)
            decoding, memory = measure(epoch, root)
            reading, _ = measure(epoch, root)
            segments = len(open_loader(root).dataset)
            rates = [segments / (seconds - opening) for seconds in (decoding, reading)]
            row = (episodes, segments, f"{opening:.1f}", *(f"{rate:.0f}" for rate in rates), f"{memory:.0f}")
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
