"""What pictures look like, as a few numbers a frame: read once, encoded once, kept on disk.

The tower is named: a timm model (downloaded once, or a folder ``local-dir:FOLDER``), the tower of a trained policy, or
none. Where a pretrained one cannot be had, small thumbnails stand in, which see motion and light but no objects.
"""

from __future__ import annotations

import io
import socket
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptr_robot.data.lerobot.contents import DatasetIndex, EpisodeRecord
from ptr_robot.data.lerobot.frames import decode_episode, resize_frame
from ptr_robot.errors import ConfigError, DataError, require
from ptr_robot.files import atomic_file, file_identity, fingerprint, process_lock
from ptr_robot.method.scoring.recordings import Recording, Recordings
from ptr_robot.scheduling import one_thread

DEFAULT_TOWER = "mobilenetv3_small_100.lamb_in1k"
AUTO, NONE, THUMBNAILS = "auto", "none", "thumbnails"
_SECONDS_TO_ANSWER = 3.0
NUM_COMPONENTS = 16
LOOKS_A_SECOND = 5.0
FORMAT = 1
_BATCH = 32
_CHECKSUM_BYTES = 4
_THUMBNAIL = 12  # pixels
_MOST_ROWS = 20_000  # that the components are computed from

Features = NDArray[np.float32]
Report = Callable[[str, float], None]


_NO_TOWER = f"No pretrained tower can be had here ({DEFAULT_TOWER}): pictures are seen as thumbnails."


class Tower(ABC):
    """From pictures to features."""

    name: str
    image_size: int

    @abstractmethod
    def encode(self, pictures: Tensor) -> Tensor:  # (n, 3, S, S) uint8 -> (n, K)
        """One row a picture."""


class Thumbnails(Tower):
    """The pixels themselves, few of them."""

    name = THUMBNAILS
    image_size = 96

    def encode(self, pictures: Tensor) -> Tensor:
        """A thumbnail's values, 0 to 1."""
        small = torch.nn.functional.adaptive_avg_pool2d(pictures.float() / 255.0, _THUMBNAIL)
        return small.flatten(1)


class TimmTower(Tower):
    """A published model of timm, or one in a folder."""

    def __init__(self, name: str) -> None:
        timm, data = require("timm", "lerobot"), require("timm.data", "lerobot")
        source = f"local-dir:{Path(name).expanduser()}" if Path(name).expanduser().is_dir() else name
        self.name = source
        self.model = timm.create_model(source, pretrained=True, num_classes=0).eval()
        settings = data.resolve_model_data_config(self.model)
        self.image_size = int(settings["input_size"][-1])
        self.mean, self.std = (torch.tensor(settings[key]).view(3, 1, 1) for key in ("mean", "std"))

    @torch.no_grad()
    def encode(self, pictures: Tensor) -> Tensor:
        """The model's pooled features."""
        features: Tensor = self.model((pictures.float() / 255.0 - self.mean) / self.std)
        return features


class PolicyTower(Tower):
    """The vision tower of a trained policy: what its patches have on average."""

    def __init__(self, folder: Path) -> None:
        from ptr_robot.policy.registry import load_policy

        policy: Any = load_policy(folder).policy
        if getattr(policy, "vision_tower", None) is None:
            raise ConfigError(f"{folder}: this policy looks at no images; give --vision=none or a timm name")
        self.tower = policy.vision_tower.eval()
        self.name, self.image_size = f"policy {fingerprint(str(folder.resolve()))}", int(self.tower.image_size)

    @torch.no_grad()
    def encode(self, pictures: Tensor) -> Tensor:
        """The mean over the last feature map."""
        features: Tensor = self.tower(pictures).flatten(2).mean(dim=2)
        return features


def open_tower(name: str) -> tuple[Tower | None, str]:
    """The tower that ``--vision`` names, and a line that says what is used where it was left open."""
    if name == NONE:
        return None, ""
    if name == THUMBNAILS:
        return Thumbnails(), ""
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file() and (folder / "model.safetensors").is_file() and _is_policy(folder):
        return PolicyTower(folder), ""
    if name == AUTO and not _is_at_hand():
        return Thumbnails(), _NO_TOWER
    try:
        return TimmTower(DEFAULT_TOWER if name == AUTO else name), ""
    except (OSError, RuntimeError, TypeError, KeyError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        if name != AUTO:
            raise ConfigError(
                f"--vision={name}: the tower cannot be loaded ({reason}); give a timm name that can be reached, "
                "a folder with one, a trained policy, or none"
            ) from error
        return Thumbnails(), _NO_TOWER


def _is_at_hand() -> bool:
    """Whether the default tower is on this machine, or its hub answers: asking it in vain takes most of a minute."""
    hub, constants = (require(name, "lerobot") for name in ("huggingface_hub", "huggingface_hub.constants"))
    if isinstance(hub.try_to_load_from_cache(f"timm/{DEFAULT_TOWER}", "model.safetensors"), str):
        return True
    if constants.HF_HUB_OFFLINE:
        return False
    if getproxies():  # what lies behind a proxy cannot be asked directly
        return True
    place = urlsplit(constants.ENDPOINT)
    try:
        socket.create_connection((place.hostname or "", place.port or 443), timeout=_SECONDS_TO_ANSWER).close()
    except OSError:
        return False
    return True


def _is_policy(folder: Path) -> bool:
    """A timm folder's config names an architecture, a policy's does not."""
    return '"architecture"' not in (folder / "config.json").read_text(errors="replace")


def with_looks(
    recordings: Recordings,
    records: Sequence[EpisodeRecord],
    index: DatasetIndex,
    tower: Tower,
    camera_keys: Sequence[str],
    cache_dir: Path,
    report: Report | None = None,
) -> Recordings:
    """The same recordings with what their pictures look like, in a few components that count like the state does."""
    features = read_looks(records, index, tower, camera_keys, cache_dir, report)
    return add_looks(recordings, features, _stride(index))


def read_looks(
    records: Sequence[EpisodeRecord],
    index: DatasetIndex,
    tower: Tower,
    camera_keys: Sequence[str],
    cache_dir: Path,
    report: Report | None = None,
) -> list[Features]:
    """What the pictures of each episode look like, from the cache or made and kept there one by one.

    A run that was stopped goes on from there, and what several processes have made is there for all.
    """
    stride, num_threads = _stride(index), torch.get_num_threads()

    def look(record: EpisodeRecord) -> Features:
        return np.concatenate([_cached(record, index, key, tower, stride, cache_dir) for key in camera_keys], axis=1)

    features: list[Features] = []
    torch.set_num_threads(1)  # of each episode's thread: how many share the work must not change a bit of it
    try:
        with ThreadPoolExecutor(max_workers=max(1, num_threads)) as pool:
            try:
                for found in pool.map(look, records):
                    features.append(found)
                    if report is not None:
                        report("looking at pictures", len(features) / len(records))
            except BaseException:  # Ctrl-C, too: what has not begun is not waited for
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        torch.set_num_threads(num_threads)
    return features


def _stride(index: DatasetIndex) -> int:
    return max(1, round(index.fps / LOOKS_A_SECOND))


def add_looks(recordings: Recordings, features: list[Features], stride: int) -> Recordings:
    """Features of every ``stride``-th frame, in a few components that count like the state does."""
    with one_thread():
        looks = _scaled(_components(features), recordings.episodes, stride, recordings.chunk_length)
    episodes = tuple(
        replace(episode, looks=own, look_stride=stride) for episode, own in zip(recordings.episodes, looks, strict=True)
    )
    return replace(recordings, episodes=episodes)


def _cached(
    record: EpisodeRecord, index: DatasetIndex, key: str, tower: Tower, stride: int, cache_dir: Path
) -> Features:
    """The features of an episode's camera, from disk if they are there; named after what they were made from."""
    span = record.videos.get(key)
    source = record.table if span is None else span.path
    start = record.first_row if span is None else span.from_timestamp
    made_from = (FORMAT, file_identity(source), start, record.length, index.fps, key, tower.name, stride)
    path = cache_dir / "looks" / f"{fingerprint(*made_from)}.npy"
    with process_lock(path):
        stored = _read_undamaged(path)
        if stored is not None:
            return stored
        features = _encode(record, index, key, tower, stride)
        content = io.BytesIO()
        np.save(content, features)
        with atomic_file(path) as file:
            file.write(content.getvalue() + zlib.crc32(content.getvalue()).to_bytes(_CHECKSUM_BYTES, "little"))
    return features


def _read_undamaged(path: Path) -> Features | None:
    """Features that were kept, or None where there are none or not those that were written."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    array, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
    if not array or zlib.crc32(array) != int.from_bytes(checksum, "little"):
        return None
    stored: Features = np.load(io.BytesIO(array), allow_pickle=False)
    return stored


def _encode(record: EpisodeRecord, index: DatasetIndex, key: str, tower: Tower, stride: int) -> Features:
    pictures, parts = [], []
    for number, frame in enumerate(decode_episode(record, index.features[key], index.fps)):
        if number % stride == 0:
            pictures.append(torch.from_numpy(resize_frame(frame, tower.image_size)))
        if len(pictures) == _BATCH:
            parts.append(tower.encode(torch.stack(pictures)))
            pictures = []
    if pictures:
        parts.append(tower.encode(torch.stack(pictures)))
    if not parts:
        raise DataError(f"episode {record.episode_index}, {key!r}: there are no pictures; fetch the dataset again")
    encoded: Features = torch.cat(parts).float().numpy()
    return encoded


def _components(features: list[Features]) -> list[Features]:
    """The directions in which pictures differ most, each with a deviation of its own size."""
    rows = np.concatenate(features)
    sample = rows[:: max(1, len(rows) // _MOST_ROWS)].astype(np.float64)
    centre = sample.mean(axis=0)
    _, _, directions = np.linalg.svd(sample - centre, full_matrices=False)
    kept = directions[:NUM_COMPONENTS].T
    return [((part - centre) @ kept).astype(np.float32) for part in features]


def _scaled(looks: list[Features], episodes: Sequence[Recording], stride: int, chunk_length: int) -> list[Features]:
    """So that what looks different over a chunk is as large as what moves."""
    steps = max(1, round(chunk_length / stride))
    seen = [np.square(part[steps:] - part[:-steps]).sum(axis=1).mean() for part in looks if len(part) > steps]
    moved = [
        np.square(e.states[chunk_length:] - e.states[:-chunk_length]).sum(axis=1).mean()
        for e in episodes
        if e.num_frames > chunk_length
    ]
    factor = np.sqrt(np.median(moved) / np.median(seen)) if seen and moved and np.median(seen) > 0 else 1.0
    return [(factor * part).astype(np.float32) for part in looks]
