"""The real G1 demonstrations with small pictures, and what a trained policy's weights say of its episodes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import av
import torch
from lerobot.configs.train import TrainPipelineConfig
from lerobot.datasets.factory import make_dataset
from lerobot.policies.factory import make_pre_post_processors

from ptr_robot.data.lerobot.compat import convert_v21
from ptr_robot.lerobot.window import Window
from tests.lerobot.stock_commands import load

HEIGHT, WIDTH = 72, 96


def write_small_g1(source: Path, root: Path) -> Path:
    """A v3.0 copy whose videos are small enough for a CPU; tables stay as they are."""
    shutil.copytree(source, root, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns("*.mp4"))
    for video in sorted(source.glob("videos/**/*.mp4")):
        _write_small_video(video, root / video.relative_to(source))
    file = root / "meta" / "info.json"
    info = json.loads(file.read_text())
    for feature in info["features"].values():
        if feature["dtype"] == "video":
            feature["shape"] = [HEIGHT, WIDTH, 3]
    file.write_text(json.dumps(info))
    convert_v21(root)
    return root


def _write_small_video(source: Path, target: Path) -> None:
    with av.open(str(source)) as frames, av.open(str(target), "w") as container:
        rate = frames.streams.video[0].average_rate
        stream = container.add_stream("libx264", rate=rate, options={"g": "2"})
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        for number, frame in enumerate(frames.decode(video=0)):
            small = frame.reformat(WIDTH, HEIGHT, "yuv420p")
            small.pts, small.time_base = number, 1 / rate
            container.mux(stream.encode(small))
        container.mux(stream.encode())


@torch.no_grad()
def episode_weights(pretrained: Path, every: int) -> torch.Tensor:  # (episodes,)
    """The mean weight that a trained PTR gives to every so many frames of each episode it was trained on."""
    config = TrainPipelineConfig.from_pretrained(pretrained)
    dataset, policy = make_dataset(config), load(pretrained)
    process, _ = make_pre_post_processors(policy.config, pretrained_path=str(pretrained))
    frames = torch.utils.data.Subset(dataset, range(0, len(dataset), every))
    episodes, weights = [], []
    for batch in torch.utils.data.DataLoader(frames, batch_size=config.batch_size):
        for key in dataset.meta.camera_keys:
            if batch[key].dtype == torch.uint8:  # LeRobot 0.6's, which lerobot-train scales as well
                batch[key] = batch[key].float() / 255
        batch = process(batch)
        window = Window.of(batch, policy._layout)
        found = policy._run(window, policy._samples(batch, window)).weights.view(len(batch["index"]), -1)
        weights.append(found[:, 0])
        episodes.append(batch["episode_index"].reshape(-1))
    numbers, values = torch.cat(episodes), torch.cat(weights).float()
    return torch.stack([values[numbers == episode].mean() for episode in range(dataset.num_episodes)])
