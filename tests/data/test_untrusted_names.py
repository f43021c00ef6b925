"""A dataset that names files outside its folder: nothing is read, written or removed there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptr_robot.data.cache.frames import FrameCache
from ptr_robot.data.corruptions import corrupt_dataset, paper_corruptions
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.lerobot.templates import fill_template
from ptr_robot.errors import DataError

from .v21_writer import CAMERA, video_path

HOSTILE_TEMPLATES = [
    "/etc/{episode_index}.parquet",
    "../{episode_index}.parquet",
    "data/../../{episode_index}.parquet",
    "{episode_index.__class__}",
    "{episode_index!r}",
    "{episode_index:02000000000d}",
    "{episode_index:{episode_chunk}d}",
    "{episode_index:x}",
    "{episode_index[0]}",
    "{}",
    "{0}",
    "{unknown}",
    "{",
    "a\0{episode_index}",
    "n" * 300,
    "",
]


def rewrite_info(root: Path, **changes) -> None:
    file = root / "meta/info.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def rename_camera(root: Path, name: str) -> None:
    """The camera under another name in ``meta/info.json``, with its videos where the template then has them."""
    info = json.loads((root / "meta/info.json").read_text())
    info["features"] = {name if key == CAMERA else key: value for key, value in info["features"].items()}
    info["video_path"] = info["video_path"].replace("{video_key}", CAMERA)
    (root / "meta/info.json").write_text(json.dumps(info))


@pytest.mark.parametrize("field", ["data_path", "video_path"])
@pytest.mark.parametrize("template", HOSTILE_TEMPLATES)
def test_templates_that_are_not_plain_are_refused(own_v21, field, template):
    rewrite_info(own_v21, **{field: template})
    with pytest.raises(DataError, match=r"info\.json: " + field) as caught:
        open_index(own_v21)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    ("spec", "expected"), [("", "7"), (":d", "7"), (":3", "  7"), (":03d", "007"), (":06d", "000007")]
)
def test_plain_numbers_are_filled_as_python_does(spec, expected):
    assert fill_template("{{x}}/{n" + spec + "}", {"n": 7}) == "{x}/" + expected


def test_a_number_that_is_none_is_refused():
    for value in (-1, 1.5, None, True, "1"):
        with pytest.raises(ValueError, match="whole number"):
            fill_template("{n:03d}", {"n": value})


@pytest.mark.parametrize("name", ["/absolute", "../up", "a/../../b", "with/slash", "n" * 400])
def test_a_cameras_name_keeps_its_cache_in_the_cache_folder(own_v21, tmp_path, name):
    victim = tmp_path / "elsewhere"
    if name == "/absolute":
        name = str(victim)
    (victim / "16-pad").mkdir(parents=True)
    (victim / "16-pad/episode_000000-mine").write_text("the user's own")
    rename_camera(own_v21, name)
    index = open_index(own_v21)
    cache = FrameCache(index, tmp_path / "cache", size=16)
    assert cache.path(index.episodes[0], name).is_relative_to(tmp_path / "cache/frames")
    assert cache.read(index.episodes[0], name, [0]).shape == (1, 3, 16, 16)
    assert (victim / "16-pad/episode_000000-mine").read_text() == "the user's own"


def test_no_two_cameras_share_a_folder(own_v21, tmp_path):
    index = open_index(own_v21)
    cache = FrameCache(index, tmp_path, size=16)
    rename_camera(own_v21, "a/b")
    other = open_index(own_v21)
    place = FrameCache(other, tmp_path, size=16).path(other.episodes[0], "a/b").parent
    assert place.parent.parent == cache.path(index.episodes[0], CAMERA).parent.parent.parent
    assert "/" not in place.parent.name


def test_a_video_outside_is_neither_read_nor_copied(own_v30, tmp_path):
    (tmp_path / "evil").mkdir()
    for template in ("../evil/file.mp4", "../../evil/file.mp4", str(tmp_path / "evil/file.mp4")):
        rewrite_info(own_v30, video_path=template)
        with pytest.raises(DataError, match="video_path"):
            corrupt_dataset(own_v30, tmp_path / "out/copy", paper_corruptions("ani"))
    assert not list((tmp_path / "evil").iterdir())
    assert not (tmp_path / "out").exists()


def test_data_of_another_dataset_is_refused(own_v21, v21):
    rewrite_info(own_v21, data_path=str(v21 / "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"))
    with pytest.raises(DataError, match="not the name of a file inside"):
        open_index(own_v21)


@pytest.mark.parametrize("place", ["README.md", "meta/secret.json", "videos/more"])
def test_targets_of_links_are_not_copied(own_v21, tmp_path, place):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("a secret")
    (own_v21 / place).symlink_to(secret if place == "videos/more" else secret / "key")
    with pytest.raises(DataError, match="leads out of"):
        corrupt_dataset(own_v21, tmp_path / "copy", paper_corruptions("ani"))
    assert not (tmp_path / "copy").exists()


def test_a_linked_video_or_table_is_not_followed(own_v21, tmp_path):
    video = video_path(own_v21, 0)
    shutil.move(video, tmp_path / "elsewhere.mp4")
    video.symlink_to(tmp_path / "elsewhere.mp4")
    with pytest.raises(DataError, match="leads out of"):
        open_index(own_v21)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 1e300])
def test_a_place_in_a_video_that_is_no_time_is_refused(own_v30, value):
    file = next(own_v30.glob("meta/episodes/*/*.parquet"))
    table = pq.read_table(file)
    name = f"videos/{CAMERA}/from_timestamp"
    values = [value, *table[name].to_pylist()[1:]]
    place = table.schema.get_field_index(name)
    pq.write_table(table.set_column(place, name, pa.array(values, pa.float64())), file)
    with pytest.raises(DataError, match="episode 0 lies from"):
        open_index(own_v30)


def test_statistics_that_are_none_are_refused(own_v30, tmp_path):
    (own_v30 / "meta/stats.json").write_text(json.dumps({"action": 3}))
    with pytest.raises(DataError, match=r"stats\.json"):
        corrupt_dataset(own_v30, tmp_path / "copy", paper_corruptions("ani"))


def test_what_a_killed_copy_left_is_removed_by_the_next(own_v30, tmp_path):
    left = tmp_path / ".copy.partial-abcdef"
    (left / "dataset").mkdir(parents=True)
    corrupt_dataset(own_v30, tmp_path / "copy", paper_corruptions("ani"))
    assert not left.exists()
    assert not list(tmp_path.glob(".copy*"))
