"""The real G1 demonstrations: v2.1 and LeRobot's own v3.0 copy give the same segments, to the bit.

Values and masks at every fifth frame of all twenty episodes, and every pixel of every frame of four of them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.segments.batch import SegmentBatch
from ptr_robot.data.segments.dataset import SegmentDataset

from .conftest import convert

PICTURED = [0, 7, 13, 19]


@pytest.fixture(scope="module")
def roots(g1, tmp_path_factory) -> list[Path]:
    return [g1, convert(g1, tmp_path_factory.mktemp("g1"))]


def open_both(roots: list[Path], cache: Path, episodes: list[int] | None, **settings) -> list[SegmentDataset]:
    sources = [SourceConfig(str(root), episodes=episodes) for root in roots]
    return [SegmentDataset(DataConfig([source], cache_dir=str(cache), **settings)) for source in sources]


@pytest.fixture(scope="module")
def both(roots, tmp_path_factory) -> list[SegmentDataset]:
    return open_both(roots, tmp_path_factory.mktemp("cache"), PICTURED, stride=16)


def compare(one: SegmentBatch, other: SegmentBatch) -> None:
    for field in dataclasses.fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right, field.name


@pytest.mark.slow
def test_v21_and_v30_give_the_same_values_in_all_episodes(roots, tmp_path):
    old, new = open_both(roots, tmp_path, None, stride=5, image_size=0)
    assert (old.sources[0].index.version, new.sources[0].index.version) == ("v2.1", "v3.0")
    assert len(old) == len(new) > 1300
    seen = set()
    for first in range(0, len(old), 64):
        numbers = range(first, min(first + 64, len(old)))
        compare(old[numbers], new[numbers])
        seen |= set(old[numbers].episode_id.tolist())
    assert seen == set(range(20))


@pytest.mark.slow
def test_v21_and_v30_give_the_same_segments_with_pictures(both):
    old, new = both
    assert len(old) == len(new) > 12
    seen = set()
    for number in range(len(old)):
        one = old[[number]]
        compare(one, new[[number]])
        assert one.frames.shape == (1, 5, 1, 3, 224, 224)
        assert one.action_mask.sum() == 26
        seen.add(int(one.episode_id))
    assert seen == set(PICTURED)


@pytest.mark.slow
def test_every_frame_is_the_same_to_the_pixel(both):
    old, new = (dataset.sources[0] for dataset in both)
    for before, after in zip(old.index.episodes, new.index.episodes, strict=True):
        rows = range(before.length)
        one = old.frames.read(before, old.cameras[0], rows)
        other = new.frames.read(after, new.cameras[0], rows)
        assert (one == other).all()


def test_the_set_is_sound(g1):
    index = open_index(g1)
    assert (len(index.episodes), index.num_frames, index.fps, index.left_out) == (20, 6921, 30, ())
