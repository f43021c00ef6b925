"""Pictures as features: encoded once, kept on disk, named towers, and a camera that stops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptr_robot.data.lerobot.index import open_index
from ptr_robot.errors import ConfigError
from ptr_robot.method.scoring.channels.view import View
from ptr_robot.method.scoring.recordings import Recording, Recordings
from ptr_robot.scorers import looks
from ptr_robot.scorers.looks import THUMBNAILS, Thumbnails, open_tower, with_looks
from ptr_robot.scorers.recordings import read_recordings, state_keys_of
from tests.train.datasets import CAMERA, record_dataset

LENGTHS = (12, 9, 15, 11)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return record_dataset(tmp_path_factory.mktemp("sets") / "seen", lengths=LENGTHS, pixels=16)


def test_features_are_made_once_and_are_the_pictures_own(dataset, tmp_path, monkeypatch) -> None:
    index = open_index(dataset)
    data = read_recordings(index, state_keys_of(index), "action", 4)
    first = with_looks(data.recordings, data.records, index, Thumbnails(), [CAMERA], tmp_path)
    stride = first.episodes[0].look_stride
    assert [len(episode.looks) for episode in first.episodes] == [-(-length // stride) for length in LENGTHS]

    def fail(*_):
        raise AssertionError("decoded again")

    monkeypatch.setattr(looks, "decode_episode", fail)
    again = with_looks(data.recordings, data.records, index, Thumbnails(), [CAMERA], tmp_path)
    for one, other in zip(first.episodes, again.episodes, strict=True):
        np.testing.assert_array_equal(one.looks, other.looks)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY what?", b"\0" * 500])
def test_damaged_features_are_made_again(dataset, tmp_path, content) -> None:
    index = open_index(dataset)
    data = read_recordings(index, state_keys_of(index), "action", 4)
    first = with_looks(data.recordings, data.records, index, Thumbnails(), [CAMERA], tmp_path)
    whole = {file: file.read_bytes() for file in tmp_path.rglob("*.npy")}
    for file in whole:
        file.write_bytes(content)
    again = with_looks(data.recordings, data.records, index, Thumbnails(), [CAMERA], tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.npy")} == whole
    np.testing.assert_array_equal(first.episodes[0].looks, again.episodes[0].looks)


def test_towers_by_name(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert open_tower("none") == (None, "")
    assert open_tower(THUMBNAILS)[0].name == THUMBNAILS
    with pytest.raises(ConfigError, match="--vision=no_such_tower: the tower cannot be loaded"):
        open_tower("no_such_tower")


def test_where_no_pretrained_tower_can_be_had_it_is_said(monkeypatch) -> None:
    def unreachable(name):
        raise OSError("no network")

    monkeypatch.setattr(looks, "TimmTower", unreachable)
    tower, said = open_tower("auto")
    assert tower.name == THUMBNAILS
    assert "No pretrained tower" in said


def test_a_camera_that_stops_does_not_fit_the_pose() -> None:
    generator = np.random.default_rng(0)
    episodes = []
    for number in range(16):
        angle = np.linspace(0, 3, 60)[:, None] + generator.uniform(0, 0.3)
        states = np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
        seen = np.concatenate([states @ [[1.0], [2.0]], states @ [[-1.0], [0.5]]], axis=1).astype(np.float32)
        seen += 0.05 * generator.standard_normal(seen.shape).astype(np.float32)
        episodes.append(Recording(states, states, 0, number % 5, looks=seen[::3], look_stride=3))
    recordings = Recordings(tuple(episodes), 20.0)
    fitted = View().fit(recordings, 0)
    values = [fitted.measure(episode).value for episode in episodes]
    stopped = episodes[0].looks.copy()
    stopped[7:] = stopped[7]
    assert fitted.measure(replace(episodes[0], looks=stopped)).value > max(values) + 1.0


def test_without_pictures_the_view_says_nothing() -> None:
    states = np.random.default_rng(0).standard_normal((8, 30, 2)).astype(np.float32)
    recordings = Recordings(tuple(Recording(part, part, 0, n % 2) for n, part in enumerate(states)), 20.0)
    assert View().fit(recordings, 0) is None
