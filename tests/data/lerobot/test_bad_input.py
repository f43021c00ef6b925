"""Every kind of bad input: one line that names the file and the episode, and a way to go on without it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.data.segments.loader import make_loader
from ptr_robot.errors import ConfigError, DataError
from tests.data.v21_writer import (
    CAMERA,
    LENGTHS,
    add_rewards,
    episode_values,
    table_path,
    video_path,
    write_table,
    write_video,
)

BAD = 1  # the episode that is broken
FIRST = LENGTHS[0]


def missing_video(root):
    video_path(root, BAD).unlink()


def broken_video(root):
    video_path(root, BAD).write_bytes(b"not a video")


def short_video(root):
    write_video(video_path(root, BAD), BAD, LENGTHS[BAD] - 3)


def long_video(root):
    write_video(video_path(root, BAD), BAD, LENGTHS[BAD] + 1)


def video_of_another_rate(root):
    write_video(video_path(root, BAD), BAD, LENGTHS[BAD], fps=30)


def missing_table(root):
    table_path(root, BAD).unlink()


def truncated_table(root):
    path = table_path(root, BAD)
    path.write_bytes(path.read_bytes()[:-200])


def short_table(root):
    states, actions = episode_values(BAD, LENGTHS[BAD])
    write_table(table_path(root, BAD), BAD, states[:-2], actions[:-2], FIRST)


def nan_action(root):
    states, actions = episode_values(BAD, LENGTHS[BAD])
    actions[7, 2] = np.nan
    write_table(table_path(root, BAD), BAD, states, actions, FIRST)


def infinite_state(root):
    states, actions = episode_values(BAD, LENGTHS[BAD])
    states[30, 0] = -np.inf
    write_table(table_path(root, BAD), BAD, states, actions, FIRST)


def wrong_fps(root):
    states, actions = episode_values(BAD, LENGTHS[BAD])
    write_table(table_path(root, BAD), BAD, states, actions, FIRST, fps=15)


def change_column(root, key, change):
    """Rewrite one column of the bad episode as lists of any length, nulls included."""
    path = table_path(root, BAD)
    table = pq.read_table(path)
    cells = change(table.column(key).to_pylist())
    kind = pa.list_(pa.float32()) if isinstance(cells[0], list) else table.schema.field(key).type
    pq.write_table(table.set_column(table.schema.get_field_index(key), key, pa.array(cells, type=kind)), path)


def null_action(root):
    change_column(root, "action", lambda cells: [*cells[:3], None, *cells[4:]])


def ragged_action(root):
    change_column(root, "action", lambda cells: [*cells[:5], cells[5][:2], *cells[6:]])


def narrow_action(root):
    change_column(root, "action", lambda cells: [cell[:3] for cell in cells])


def null_episode_number(root):
    change_column(root, "episode_index", lambda cells: [*cells[:5], None, *cells[6:]])


def jump_in_the_index(root):
    change_column(root, "index", lambda cells: [*cells[:-1], cells[-1] + 4])


def text_in(key):
    def write(root):
        path = table_path(root, BAD)
        table = pq.read_table(path)
        words = pa.array([["left"] * 4 if key == "action" else "left"] * len(table))
        pq.write_table(table.set_column(table.schema.get_field_index(key), key, words), path)

    return write


def unknown_task(root):
    change_column(root, "task_index", lambda cells: [*cells[:8], 7, *cells[9:]])


def without_column(key):
    def drop(root):
        table = pq.read_table(table_path(root, BAD))
        pq.write_table(table.drop([key]), table_path(root, BAD))

    return drop


CASES = [
    (missing_video, "episode_000001.mp4: episode 1, 'observation.images.front': no such file"),
    (broken_video, "episode_000001.mp4: episode 1, .*: not a readable video"),
    (short_video, "episode_000001.mp4: episode 1, .*: the video has 37 frames, the table 40 rows"),
    (long_video, "episode_000001.mp4: episode 1, .*: the video has 41 frames, the table 40 rows"),
    (video_of_another_rate, "episode_000001.mp4: episode 1, .*runs at 30 fps, meta/info.json says 10"),
    (missing_table, "episode 1: .*episode_000001.parquet: no such file"),
    (truncated_table, "episode 1: .*episode_000001.parquet: not a readable parquet file"),
    (short_table, "episode_000001.parquet: episode 1 has 38 rows, its metadata says 40"),
    (nan_action, "episode_000001.parquet: episode 1 has nan in 'action', frame 7, dimension 2"),
    (infinite_state, "episode_000001.parquet: episode 1 has -inf in 'observation.state', frame 30"),
    (wrong_fps, "episode_000001.parquet: episode 1 has timestamps at 15 Hz while .* says fps 10"),
    (null_action, "episode_000001.parquet: episode 1 has nan in 'action', frame 3, dimension 0"),
    (ragged_action, "episode_000001.parquet: episode 1, 'action', frame 5: it has 2 values, the other frames 4"),
    (narrow_action, "episode_000001.parquet: episode 1 has 3 values in 'action', meta/info.json says 4"),
    (null_episode_number, "episode_000001.parquet: 'episode_index' has cells that are empty"),
    (jump_in_the_index, "episode_000001.parquet: episode 1 has 40 rows, its column 'index' runs from 23 to 66"),
    (text_in("action"), "episode_000001.parquet: episode 1, 'action', every frame: .* type string, not numbers"),
    (text_in("task_index"), "episode_000001.parquet: episode 1, 'task_index', every frame: .* type string, not num"),
    (text_in("index"), "episode 1: .*episode_000001.parquet, 'index', every frame: .* type string, not numbers"),
    (unknown_task, "episode_000001.parquet: episode 1 has task_index 7 in frame 8, which .*/meta/tasks.jsonl does not"),
    (without_column("action"), "episode_000001.parquet: the column 'action' is missing"),
    (without_column("task_index"), "episode_000001.parquet: the column 'task_index' is missing"),
    (without_column("episode_index"), "episode_000001.parquet: the column 'episode_index' is missing"),
]


@pytest.mark.parametrize(("spoil", "line"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_bad_episode_is_named_in_one_line_and_can_be_skipped(own_v21, spoil, line):
    spoil(own_v21)
    with pytest.raises(DataError, match=line) as caught:
        open_index(own_v21)
    assert "\n" not in str(caught.value)
    assert "--dataset.skip_bad_episodes=true" in str(caught.value)
    index = open_index(own_v21, skip_bad_episodes=True)
    assert [episode.episode_index for episode in index.episodes] == [0, 2, 3]
    assert [problem.episode_index for problem in index.left_out] == [BAD]
    with pytest.raises(DataError, match=line):
        index.episode(BAD)


def test_truncated_table_of_a_joined_file_loses_all_its_episodes(own_v30):
    path = own_v30 / "data/chunk-000/file-000.parquet"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"episode 0: .*file-000.parquet: not a readable.*3 more episodes"):
        open_index(own_v30)
    with pytest.raises(DataError, match="no usable episode is left"):
        open_index(own_v30, skip_bad_episodes=True)


def test_joined_video_that_ends_early(own_v30):
    path = own_v30 / f"videos/{CAMERA}/chunk-000/file-000.mp4"
    write_video(path, 0, sum(LENGTHS) - 5)
    index = open_index(own_v30, skip_bad_episodes=True)
    assert [problem.episode_index for problem in index.left_out] == [3]
    assert "file-000.mp4: episode 3" in str(index.left_out[0])
    assert "which has only 106" in str(index.left_out[0])


def test_a_ragged_episode_of_a_joined_file_is_lost_alone(own_v30):
    path = own_v30 / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path, partitioning=None)
    cells = table.column("action").to_pylist()
    cells[LENGTHS[0] + 2] = [1.0]
    column = pa.array(cells, type=pa.list_(pa.float32()))
    pq.write_table(table.set_column(table.schema.get_field_index("action"), "action", column), path)
    index = open_index(own_v30, skip_bad_episodes=True)
    assert [str(p) for p in index.left_out] == [
        f"{path}: episode 1, 'action', frame 2: it has 1 values, the other frames 4"
    ]


@pytest.mark.parametrize("settings", [{"image_size": 0}, {"image_keys": ["none"]}])
def test_videos_that_nobody_asked_for_need_not_be_there(own_v21, tmp_path, settings):
    missing_video(own_v21)
    cameras = {"image_keys": settings.pop("image_keys", None)}
    source = SourceConfig(str(own_v21), **cameras)
    config = DataConfig([source], chunk_length=5, cache_dir=str(tmp_path / "cache"), **settings)
    assert len(SegmentDataset(config)) == sum(LENGTHS)
    with pytest.raises(DataError, match="no such file"):
        SegmentDataset(DataConfig([SourceConfig(str(own_v21))], chunk_length=5, cache_dir=str(tmp_path / "cache")))


def test_values_that_nobody_asked_for_need_not_be_finite(own_v21, tmp_path):
    add_rewards(own_v21, np.nan)
    config = DataConfig([SourceConfig(str(own_v21))], chunk_length=5, image_size=0, cache_dir=str(tmp_path / "cache"))
    assert len(SegmentDataset(config)) == sum(LENGTHS)
    with pytest.raises(DataError, match=r"episode 0 has nan in 'next.reward', frame 0"):
        open_index(own_v21, vector_keys=["next.reward"])


def test_joined_table_of_another_length(own_v30):
    path = own_v30 / "data/chunk-000/file-000.parquet"
    frame = pd.read_parquet(path)
    frame[~((frame.episode_index == 2) & (frame.frame_index > 9))].to_parquet(path)
    index = open_index(own_v30, skip_bad_episodes=True)
    assert [str(p) for p in index.left_out] == [f"{path}: episode 2 has 10 rows, its metadata says 17"]
    assert [e.episode_index for e in index.episodes] == [0, 1, 3]


def test_episode_shorter_than_a_chunk(v21, tmp_path):
    config = DataConfig([SourceConfig(str(v21))], chunk_length=20, image_size=0, cache_dir=str(tmp_path))
    with pytest.raises(DataError, match=r"000002.parquet: episode 2 has 17 frames, fewer than a chunk of 20"):
        SegmentDataset(config)


def test_segments_of_little_but_padding(v21, tmp_path):
    settings = {"chunk_length": 16, "image_size": 0, "cache_dir": str(tmp_path)}
    SegmentDataset(DataConfig([SourceConfig(str(v21))], num_chunks=12, **settings))
    with pytest.raises(ConfigError, match=r"num_chunks is 100000, .* longest episode has 40 frames.* at most 12$"):
        SegmentDataset(DataConfig([SourceConfig(str(v21))], num_chunks=100_000, **settings))
    SegmentDataset(DataConfig([SourceConfig(str(v21), episodes=[2])], **settings))  # 17 frames, and the default


def test_skipping_lists_what_was_left_out(own_v21, tmp_path, caplog):
    nan_action(own_v21)
    config = DataConfig(
        [SourceConfig(str(own_v21))],
        chunk_length=20,
        image_size=0,
        cache_dir=str(tmp_path / "cache"),
        skip_bad_episodes=True,
    )
    loader = make_loader(config, 8, drop_last=False)
    assert {int(i) for batch in loader for i in batch.episode_id} == {0, 3}
    assert [problem.episode_index for _, problem in loader.dataset.left_out] == [1, 2]
    assert "nan in 'action'" in caplog.text
    assert "fewer than a chunk" in caplog.text


def test_unknown_robot(own_v21, tmp_path):
    path = own_v21 / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"robot_type": "unitree_g2"}))
    with pytest.raises(ConfigError, match="robot_type 'unitree_g2' has no map; did you mean 'unitree_g1'"):
        SegmentDataset(DataConfig([SourceConfig(str(own_v21))], cache_dir=str(tmp_path)))


def test_dimensions_that_do_not_add_up(v21, tmp_path):
    config = DataConfig([SourceConfig(str(v21), robot="fr3")], cache_dir=str(tmp_path))
    with pytest.raises(ConfigError, match=r"'observation.state' \(robot fr3\) has 4 dimensions .* map 13 \(7 right"):
        SegmentDataset(config)


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ({"image_keys": ["observation.images.fronnt"]}, "did you mean 'observation.images.front'"),
        ({"state_key": "observation.states"}, "did you mean 'observation.state'"),
        ({"action_key": "actoin"}, "did you mean 'action'"),
        ({"action_key": CAMERA}, "is a camera, not a vector"),
        ({"robot": "metawrld"}, "did you mean 'metaworld'"),
    ],
)
def test_misspelt_keys_get_a_hint(v21, tmp_path, setting, hint):
    with pytest.raises(ConfigError, match=hint):
        SegmentDataset(DataConfig([SourceConfig(str(v21), **setting)], cache_dir=str(tmp_path)))


def test_an_empty_list_of_episodes():
    with pytest.raises(ConfigError, match=r"a/b: dataset\.episodes is empty; name at least one episode"):
        SourceConfig("a/b", episodes=[])


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"chunk_length": 0}, "chunk_length is 0"),
        ({"offset_steps": 0}, "from 0 to 0"),
        ({"offset_steps": 9, "offset_steps_max": 4}, "from 9 to 4"),
        ({"resize": "padd"}, "did you mean 'pad'"),
        ({"sources": [SourceConfig("a/b", weight=1.0), SourceConfig("a/c")]}, "only a/b has a weight"),
    ],
)
def test_settings_out_of_range(settings, line):
    with pytest.raises(ConfigError, match=line):
        DataConfig(**settings)
