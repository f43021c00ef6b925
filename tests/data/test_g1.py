"""The real G1 demonstrations: v2.1 and LeRobot's own v3.0 copy give the same segments, to the bit."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.dataset import SegmentDataset
from ptr_robot.data.index import open_index

from .conftest import convert

EPISODES = [0, 9, 19]  # the first, a middle and the last of the joined video


@pytest.fixture(scope="module")
def both(g1, tmp_path_factory) -> list[SegmentDataset]:
    folder = tmp_path_factory.mktemp("g1")
    roots = (g1, convert(g1, folder))
    return [
        SegmentDataset(
            DataConfig([SourceConfig(str(root), episodes=EPISODES)], stride=16, cache_dir=str(folder / "cache"))
        )
        for root in roots
    ]


@pytest.mark.slow
def test_v21_and_v30_give_the_same_segments(both):
    old, new = both
    assert (old.sources[0].index.version, new.sources[0].index.version) == ("v2.1", "v3.0")
    assert len(old) == len(new) > 60
    seen = set()
    for number in range(len(old)):
        one, other = old[[number]], new[[number]]
        for field in dataclasses.fields(one):
            left, right = getattr(one, field.name), getattr(other, field.name)
            assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right, field.name
        assert one.frames.shape == (1, 5, 1, 3, 224, 224)
        assert one.action_mask.sum() == 26
        seen.add(int(one.episode_id))
    assert seen == set(EPISODES)


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
