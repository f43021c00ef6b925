"""What reading demonstrations costs, as ratios in one run.

    python benchmarks/data.py --dataset ../shared/data/g1_pick_bottle --episodes 6

Segments a second against LeRobot's own LeRobotDataset and DataLoader, which get the same segments in the same order,
the same frames, size, batch size and number of workers, from a v3.0 copy made by LeRobot's converter; then memory
while reading more and more data, under a limit below the size of the decoded frames; then what it saves to plan and
read the segments of a batch together, without images; then rollouts (benchmarks/rollouts.py).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import rollouts
import torch
from torch.utils.data import DataLoader

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.lerobot.compat import convert_v21
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.segments.loader import SegmentLoader, make_loader

SIZE = 224
BATCH = 8
BACKEND = "pyav"  # LeRobot's decoder here: the library that we decode with, so that the ratio is not the decoder's


@dataclass(frozen=True)
class Case:
    """One way to cut the data."""

    name: str
    num_chunks: int
    stride: int


CASES = (
    Case("T=1, every 16th frame starts a segment: a frame is needed about once", 1, 16),
    Case("T=4, every 16th frame starts a segment", 4, 16),
)


def convert(dataset: Path, folder: Path) -> Path:
    """A v3.0 copy of a v2.1 dataset by LeRobot's converter; a v3.0 dataset as it is."""
    if open_index(dataset).version == "v3.0":
        return dataset
    shutil.copytree(dataset, folder / "owner" / "set", copy_function=shutil.copyfile)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        convert_v21(folder / "owner" / "set")
    return folder / "owner" / "set"


def our_loader(root: Path, cache: Path, episodes: int, case: Case, workers: int) -> SegmentLoader:
    config = DataConfig(
        sources=[SourceConfig(str(root), episodes=list(range(episodes)))],
        num_chunks=case.num_chunks,
        stride=case.stride,
        image_size=SIZE,
        resize="stretch",
        cache_dir=str(cache),
    )
    return make_loader(config, BATCH, num_workers=workers, drop_last=False)


def their_loader(root: Path, ours: SegmentLoader, workers: int) -> DataLoader[dict[str, torch.Tensor]]:
    """LeRobot's dataset with the same segments in the same order."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from torchvision.transforms.v2 import Resize

    source, layout = ours.dataset.sources[0], ours.dataset.layout
    fps = source.index.fps
    frames = [step * layout.chunk_length / fps for step in range(layout.num_chunks + 1)]
    deltas = dict.fromkeys(source.index.camera_keys, frames)
    deltas["observation.state"] = frames
    deltas["action"] = [step / fps for step in range(layout.num_chunks * layout.chunk_length)]
    dataset = LeRobotDataset(
        "owner/set",
        root=root,
        delta_timestamps=deltas,
        image_transforms=Resize((SIZE, SIZE), antialias=True),
        video_backend=BACKEND,
    )
    places = [ours.dataset.locate(number) for batch in ours.plan.batches(0) for number in batch]
    order = [episode.first_index + start for _, episode, start in places]
    return DataLoader(dataset, batch_size=BATCH, sampler=order, num_workers=workers)


def rate(batches: Iterator[object], segments: int) -> float:
    started = time.perf_counter()
    for _ in batches:
        pass
    return segments / (time.perf_counter() - started)


def throughput(root: Path, folder: Path, episodes: int, workers: int, rounds: int) -> None:
    """Ours and LeRobot's in turn, each round from an empty cache, so that a busy machine slows both."""
    print(f"loader throughput: {episodes} episodes, {SIZE} px, batch {BATCH}, {workers} workers, {rounds} rounds")
    print(f"  LeRobot decodes with video_backend={BACKEND!r}; torchcodec, its default where installed, is not measured")
    for case in CASES:
        firsts, laters, rates = [], [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(dir=folder) as cache:
                ours = our_loader(root, Path(cache), episodes, case, workers)
                segments = len(ours.dataset)
                first = rate(iter(ours), segments)
                theirs = rate(iter(their_loader(root, ours, workers)), segments)
                later = rate(iter(ours), segments)
            firsts.append(first / theirs)
            laters.append(later / theirs)
            rates.append(theirs)
        print(f"  {case.name}: {segments} segments, LeRobot {median(rates):.1f} segments/s")
        for name, ratios in (("first epoch", firsts), ("later epochs", laters)):
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            print(f"    {name}: {median(ratios):.2f}x LeRobot's (median; {spread})", flush=True)


MEMORY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from data import CASES, limit_memory, our_loader
loader = our_loader(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), CASES[-1], 0)
limit_memory(int(sys.argv[5]), loader.dataset.sources[0].index.num_frames)
for batch in loader:
    pass
frames = loader.dataset.sources[0].index.num_frames
peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'))
print(frames, peak)
"""


def limit_memory(mebibytes: int, frames: int) -> None:
    """Let this process take so much more private memory than it has now, and make sure that the limit holds."""
    status = Path("/proc/self/status").read_text().splitlines()
    used = next(int(line.split()[1]) for line in status if line.startswith("VmData"))
    limit, decoded = used * 2**10 + mebibytes * 2**20, frames * 3 * SIZE * SIZE
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    if decoded <= mebibytes * 2**20:
        return
    with contextlib.suppress(MemoryError):
        np.ones(decoded, dtype=np.uint8)
        raise SystemExit("the decoded frames fit into memory: the limit does not hold on this system")


def memory(root: Path, folder: Path, limit: int) -> None:
    """Peak resident memory of a process that decodes and reads a part of the data, then four times as much."""
    episodes = len(open_index(root).episodes)
    print(f"memory: a process that decodes and reads everything once, with {limit} MiB above what its imports take")
    print("  (set by the system; holding all decoded frames at once is tried first, and refused where they are more)")
    for part in (4, 2, 1):
        folders = [str(Path(__file__).parent), str(root), str(folder / "cache_memory")]
        command = [sys.executable, "-c", MEMORY, *folders, str(episodes // part), str(limit)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        frames, peak = (int(word) for word in run.stdout.split())
        decoded = frames * 3 * SIZE * SIZE / 2**20
        print(f"  {frames} frames, {decoded:.0f} MiB decoded: peak {peak / 1024:.0f} MiB", flush=True)


def together(root: Path, folder: Path, rounds: int, size: int = 16) -> None:
    """A batch of states and actions against its segments one by one, the fastest of each."""
    data = DataConfig([SourceConfig(str(root))], num_chunks=2, image_size=0, cache_dir=str(folder / "cache_states"))
    dataset = make_loader(data, size).dataset
    numbers = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0))[:size].tolist()
    whole, single = float("inf"), float("inf")
    for _ in range(50 * rounds):
        started = time.perf_counter()
        dataset[numbers]
        between = time.perf_counter()
        for number in numbers:
            dataset[[number]]
        whole, single = min(whole, between - started), min(single, time.perf_counter() - between)
    print(f"a batch of {size} segments without images: {1e3 * whole:.2f} ms, one by one {1e3 * single:.2f} ms", end="")
    print(f" = {single / whole:.1f}x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", type=Path, required=True, help="the folder of a LeRobot dataset")
    parser.add_argument("--episodes", type=int, default=6, help="episodes for the throughput")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=192, help="MiB that a reader may take above its imports")
    parser.add_argument("--num_workers", type=int, default=2)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        root = convert(options.dataset, Path(folder))
        throughput(root, Path(folder), options.episodes, options.num_workers, options.rounds)
        memory(root, Path(folder), options.memory)
        together(root, Path(folder), options.rounds)
    rollouts.report()


if __name__ == "__main__":
    main()
