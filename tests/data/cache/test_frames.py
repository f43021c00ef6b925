"""The frame cache: decoded once, never stale, whole or absent, and resized as said."""

from __future__ import annotations

import dataclasses
import io
import itertools
import subprocess
import sys
import types

import numpy as np
import pyarrow.parquet as pq
import pytest

import ptr_robot.data.cache.frames as frame_cache_module
import ptr_robot.data.lerobot.frames as frames_module
from ptr_robot.data.cache.frames import FrameCache
from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.lerobot.frames import _decode_image, decode_episode, resize_frame
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.data.segments.loader import make_loader
from ptr_robot.errors import ConfigError, DataError
from ptr_robot.files import process_lock
from tests.data.conftest import WRIST
from tests.data.v21_writer import CAMERA, LENGTHS, video_path, write_video


@pytest.fixture
def decodes(monkeypatch) -> list[tuple[int, str]]:
    """The episodes and cameras that were decoded, in order."""
    seen: list[tuple[int, str]] = []

    def counting(episode, feature, fps):
        seen.append((episode.episode_index, feature.key))
        return decode_episode(episode, feature, fps)

    monkeypatch.setattr(frame_cache_module, "decode_episode", counting)
    return seen


def settings(root, tmp_path, **more) -> DataConfig:
    return DataConfig(
        [SourceConfig(str(root))], chunk_length=5, image_size=32, cache_dir=str(tmp_path / "cache"), **more
    )


def test_every_episode_is_decoded_once_and_the_second_epoch_decodes_nothing(v30, tmp_path, decodes):
    loader = make_loader(settings(v30, tmp_path), 8)
    first = [batch.frames.float().mean().item() for batch in loader]
    assert sorted(decodes) == [(episode, CAMERA) for episode in range(4)]
    second = [batch.frames.float().mean().item() for batch in loader]
    again = make_loader(settings(v30, tmp_path), 8)
    assert [batch.frames.float().mean().item() for batch in again] == first
    assert len(second) == len(first)
    assert len(decodes) == 4


def test_decode_all_decodes_everything_beforehand(v21, tmp_path, decodes):
    dataset = SegmentDataset(settings(v21, tmp_path))
    dataset.decode_all()
    assert len(decodes) == 4
    dataset[range(len(dataset))]
    assert len(decodes) == 4


def test_cached_frames_are_the_decoded_ones(recorded, tmp_path):
    index = open_index(recorded)
    for key in ("observation.images.top", WRIST):
        cache = FrameCache(index, tmp_path, 24, "stretch")
        for episode in index.episodes:
            fresh = [resize_frame(f, 24, "stretch") for f in decode_episode(episode, index.feature(key), index.fps)]
            stored = cache.read(episode, key, range(episode.length))
            np.testing.assert_array_equal(stored, np.stack(fresh))
            np.testing.assert_array_equal(cache.read(episode, key, [7, 2, 7]), stored[[7, 2, 7]])


def test_pictures_in_the_table_come_back_bit_for_bit(recorded, tmp_path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    theirs = LeRobotDataset("owner/arm", root=recorded, video_backend="pyav")
    index = open_index(recorded)
    frames = list(decode_episode(index.episode(1), index.feature(WRIST), index.fps))
    for frame in (0, 11):
        expected = (theirs[index.episode(1).first_index + frame][WRIST] * 255).round().byte()
        np.testing.assert_array_equal(frames[frame], expected.permute(1, 2, 0).numpy())


@pytest.mark.parametrize("group_size", [7, 19, 1000])
def test_an_episodes_pictures_are_read_without_those_of_others(recorded, tmp_path, monkeypatch, group_size):
    """Whatever the row groups: the pictures are the same, and groups of other episodes are never read."""
    index = open_index(recorded)
    episode, feature = index.episode(1), index.feature(WRIST)
    expected = list(decode_episode(episode, feature, index.fps))
    pq.write_table(pq.read_table(episode.table, partitioning=None), tmp_path / "t.parquet", row_group_size=group_size)
    read = []
    batches = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda *a, **k: read.append(k["row_groups"]) or batches(*a, **k)
    )
    other = dataclasses.replace(episode, table=tmp_path / "t.parquet")
    np.testing.assert_array_equal(np.stack(list(decode_episode(other, feature, index.fps))), np.stack(expected))
    first, last = episode.first_row, episode.first_row + episode.length - 1
    assert read == [sorted({row // group_size for row in range(first, last + 1)})]


def test_a_changed_video_is_decoded_anew(own_v21, tmp_path):
    before = FrameCache(open_index(own_v21), tmp_path, 16)
    before.ensure(before.index.episode(0), CAMERA)
    old_path = before.path(before.index.episode(0), CAMERA)
    write_video(video_path(own_v21, 0), 3, LENGTHS[0])
    after = FrameCache(open_index(own_v21), tmp_path, 16)
    new = after.read(after.index.episode(0), CAMERA, [0])
    assert abs(int(new[0, :, 12, 0].mean()) - (20 + 40 * 3)) < 8
    assert not old_path.exists()


def test_sizes_and_modes_do_not_meet(v21, tmp_path):
    index = open_index(v21)
    paths = {
        FrameCache(index, tmp_path, size, mode).path(index.episode(0), CAMERA)
        for size in (16, 32)
        for mode in ("pad", "crop")
    }
    assert len(paths) == 4


def test_an_interrupted_pass_leaves_nothing_and_can_be_repeated(v21, tmp_path, monkeypatch):
    index = open_index(v21)
    cache = FrameCache(index, tmp_path, 16)

    def dies(episode, feature, fps):
        for number, frame in enumerate(decode_episode(episode, feature, fps)):
            if number == 5:
                raise KeyboardInterrupt
            yield frame

    with monkeypatch.context() as patch:
        patch.setattr(frame_cache_module, "decode_episode", dies)
        with pytest.raises(KeyboardInterrupt):
            cache.ensure(index.episode(1), CAMERA)
    assert [path for path in tmp_path.rglob("*") if path.suffix in (".npy", ".partial")] == []
    assert cache.read(index.episode(1), CAMERA, [39]).shape == (1, 3, 16, 16)


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def cut_a_little(content: bytes) -> bytes:
    return content[:-3]


def other_header(content: bytes) -> bytes:
    return bytes(reversed(content[:90])) + content[90:]


def other_frames(content: bytes) -> bytes:
    """As many bytes as before, of which a few in the middle are others."""
    middle = len(content) // 2
    return content[:middle] + bytes(255 - byte for byte in content[middle : middle + 5]) + content[middle + 5 :]


def random_bytes(content: bytes) -> bytes:
    return np.random.default_rng(0).bytes(len(content))


@pytest.mark.parametrize("damage", [cut, cut_a_little, other_header, other_frames, random_bytes])
def test_a_damaged_file_is_made_again(v21, tmp_path, damage):
    index = open_index(v21)
    cache = FrameCache(index, tmp_path, 16)
    whole = cache.read(index.episode(0), CAMERA, range(LENGTHS[0]))
    path = cache.path(index.episode(0), CAMERA)
    content = path.read_bytes()
    path.write_bytes(damage(content))
    np.testing.assert_array_equal(cache.read(index.episode(0), CAMERA, range(LENGTHS[0])), whole)
    assert path.read_bytes()[128:] == content[128:]


def test_a_disk_that_gives_back_other_bytes_is_named(v21, tmp_path, monkeypatch):
    index = open_index(v21)
    cache = FrameCache(index, tmp_path, 16)
    numbers = itertools.count()
    checksums = types.SimpleNamespace(crc32=lambda _: next(numbers))
    monkeypatch.setattr(frame_cache_module, "zlib", checksums)
    with pytest.raises(DataError, match=r"episode_000000-.*\.npy: reads back otherwise than it was written"):
        cache.read(index.episode(0), CAMERA, [0])


def test_without_waiting_an_episode_that_another_decodes_is_passed_over(v21, tmp_path, decodes):
    index = open_index(v21)
    cache = FrameCache(index, tmp_path, 16)
    lock = cache.path(index.episode(0), CAMERA).with_name("episode_000000")
    with process_lock(lock):
        cache.ensure(index.episode(0), CAMERA, wait=False)
        cache.ensure(index.episode(1), CAMERA, wait=False)
    assert decodes == [(1, CAMERA)]
    cache.ensure(index.episode(0), CAMERA, wait=False)
    assert decodes == [(1, CAMERA), (0, CAMERA)]


def test_a_video_that_lies_about_its_length_is_found_when_decoding(own_v21, tmp_path):
    index = open_index(own_v21)
    write_video(video_path(own_v21, 2), 2, 9)
    with pytest.raises(DataError, match=r"episode_000002.mp4: episode 2: the video ends after frame 8"):
        FrameCache(index, tmp_path, 16).ensure(index.episode(2), CAMERA)
    assert list(tmp_path.rglob("*.npy")) == []


def test_a_video_whose_frames_jump_is_damaged(own_v21, tmp_path, monkeypatch):
    index = open_index(own_v21)
    read = frames_module._frames_from
    monkeypatch.setattr(
        frames_module, "_frames_from", lambda *arguments: (f for n, f in enumerate(read(*arguments)) if n != 5)
    )
    line = r"episode_000002.mp4: episode 2: the file is damaged, after frame 4 comes frame 6; fetch or record it again"
    with pytest.raises(DataError, match=line):
        FrameCache(index, tmp_path, 16).ensure(index.episode(2), CAMERA)
    assert [path for path in tmp_path.rglob("*") if path.suffix in (".npy", ".partial")] == []


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from ptr_robot.data.cache.frames import FrameCache
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.errors import DataError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
index = open_index(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    FrameCache(index, Path(sys.argv[2]), 64).ensure(index.episode(1), index.camera_keys[0])
except DataError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_is_one_line_and_leaves_nothing(v21, tmp_path):
    """A file-size limit makes the system's own write fail, as on a full disk."""
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(v21), str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert run.stdout.count("\n") == 1
    assert "episode_000001" in run.stdout
    assert "cannot be written" in run.stdout
    assert "cache_dir" in run.stdout
    assert [path for path in tmp_path.rglob("*") if path.suffix in (".npy", ".partial")] == []


def test_resize_modes():
    frame = np.zeros((40, 80, 3), dtype=np.uint8)
    frame[:, :20], frame[:, 20:60], frame[:, 60:] = 50, 100, 150
    padded, stretched, cropped = (resize_frame(frame, 20, mode) for mode in ("pad", "stretch", "crop"))
    assert (padded[:, :5] == 0).all()
    assert (padded[:, 15:] == 0).all()
    assert (padded[:, 5:15, 0] == 50).all()
    assert (stretched[:, :, 0] == 50).all()
    assert (stretched[:, :, -1] == 150).all()
    assert (cropped == 100).all()
    np.testing.assert_array_equal(resize_frame(frame, 80, "pad")[:, 20:60], frame.transpose(2, 0, 1))
    with pytest.raises(ConfigError, match="did you mean 'crop'"):
        resize_frame(frame, 20, "corp")


def test_resizing_averages_rather_than_picks():
    checkers = np.indices((64, 64)).sum(axis=0) % 2 * 200
    frame = np.repeat(checkers[..., None], 3, axis=2).astype(np.uint8)
    inner = resize_frame(frame, 16)[:, 2:-2, 2:-2].astype(int)
    assert np.abs(inner - 100).max() <= 10


def test_whatever_is_no_picture_is_one_line():
    """Pillow calls some damaged files a SyntaxError."""
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(content, "PNG")
    whole = bytearray(content.getvalue())
    whole[12:16] = b"IHDX"  # the name of the first part
    for damaged in (bytes(whole), b"", content.getvalue()[:30]):
        with pytest.raises(DataError, match="frame 3: not a readable picture"):
            _decode_image(Image, {"bytes": damaged}, "frame 3")
