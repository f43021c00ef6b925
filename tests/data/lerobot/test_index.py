"""The index against LeRobot's own reading of the same files, and against the files themselves."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import requests
from huggingface_hub.hf_api import DatasetInfo

from ptr_robot.cli.main import run
from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.lerobot.frames import decode_episode
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.lerobot.tables import iterate_episodes, read_episode
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.errors import ConfigError, DataError
from tests.data.v21_writer import CAMERA, FPS, LENGTHS, TASKS, episode_values, table_path, video_path, write_table


def test_v21_is_read_as_it_is(v21):
    index = open_index(v21)
    assert (index.version, index.fps, index.robot_type) == ("v2.1", FPS, "metaworld")
    assert index.tasks == dict(enumerate(TASKS))
    assert [episode.length for episode in index.episodes] == list(LENGTHS)
    assert [episode.first_index for episode in index.episodes] == [0, 23, 63, 80]
    assert [episode.table for episode in index.episodes] == [table_path(v21, e) for e in range(4)]
    assert index.episodes[2].videos[CAMERA].path == video_path(v21, 2)
    assert index.camera_keys == (CAMERA,)
    assert index.vector_keys == ("observation.state", "action")
    assert index.feature("action").names == ("x", "y", "z", "gripper")


def test_both_versions_describe_the_same_episodes(v21, v30):
    old, new = open_index(v21), open_index(v30)
    assert (old.version, new.version) == ("v2.1", "v3.0")
    assert (old.tasks, old.fps, old.total_frames) == (new.tasks, new.fps, new.total_frames)
    for before, after in zip(old.episodes, new.episodes, strict=True):
        for field in ("episode_index", "length", "tasks", "first_index"):
            assert getattr(before, field) == getattr(after, field)
    assert len({episode.table for episode in new.episodes}) == 1


def test_index_agrees_with_lerobots_own_metadata(recorded):
    from lerobot.datasets.lerobot_dataset import LeRobotDatasetMetadata

    theirs = LeRobotDatasetMetadata("owner/arm", root=recorded)
    ours = open_index(recorded)
    assert ours.total_frames == theirs.total_frames
    assert ours.camera_keys == tuple(theirs.camera_keys)
    assert [ours.tasks[i] for i in sorted(ours.tasks)] == list(theirs.tasks.index)
    for episode, row in zip(ours.episodes, theirs.episodes, strict=True):
        assert episode.length == row["length"]
        assert episode.first_index == row["dataset_from_index"]
        assert episode.table == recorded / theirs.get_data_file_path(episode.episode_index)
        path = recorded / theirs.get_video_file_path(episode.episode_index, "observation.images.top")
        assert episode.videos["observation.images.top"].path == path


@pytest.mark.parametrize("version", ["v21", "v30"])
def test_columns_are_those_of_the_raw_file(version, request):
    index = open_index(request.getfixturevalue(version))
    for episode, columns in iterate_episodes(index, ["action", "observation.state", "timestamp"]):
        states, actions = episode_values(episode.episode_index, episode.length)
        np.testing.assert_array_equal(columns["action"], actions)
        np.testing.assert_array_equal(columns["observation.state"], states)
        np.testing.assert_array_equal(read_episode(episode, ["action"])["action"], actions)
        assert columns["timestamp"].shape == (episode.length,)


def test_rows_are_found_where_the_metadata_names_the_wrong_file(own_v30):
    """LeRobot's converter does so for the first episode of a new file."""
    path = own_v30 / "data/chunk-000/file-000.parquet"
    frame = pd.read_parquet(path)
    second = frame[frame.episode_index >= 2]
    frame[frame.episode_index < 2].to_parquet(path)
    second.to_parquet(path.with_name("file-001.parquet"))
    index = open_index(own_v30)
    assert [(e.table.name, e.first_row) for e in index.episodes] == [
        ("file-000.parquet", 0),
        ("file-000.parquet", LENGTHS[0]),
        ("file-001.parquet", 0),
        ("file-001.parquet", LENGTHS[2]),
    ]
    np.testing.assert_array_equal(
        read_episode(index.episode(3), ["action"])["action"], episode_values(3, LENGTHS[3])[1]
    )


def test_chosen_episodes(v21):
    index = open_index(v21, episodes=[3, 1])
    assert [episode.episode_index for episode in index.episodes] == [1, 3]
    assert index.episodes[1].first_index == 80
    assert index.total_frames == sum(LENGTHS)
    with pytest.raises(DataError, match="no episode 9"):
        open_index(v21, episodes=[9])


def test_misspelt_feature_gets_a_hint(v21):
    with pytest.raises(ConfigError, match=r"did you mean 'observation.state'"):
        open_index(v21).feature("observation.sate")


def test_unknown_version(own_v21):
    path = own_v21 / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"codebase_version": "v1.6"}))
    with pytest.raises(DataError, match=r"info.json: codebase_version is 'v1.6'; this package reads v2.1 and v3.0"):
        open_index(own_v21)


@pytest.mark.parametrize("content", ["{", '{"codebase_version": "v2.1"}'])
def test_broken_info(own_v21, content):
    (own_v21 / "meta/info.json").write_text(content)
    with pytest.raises(DataError, match=r"info.json: "):
        open_index(own_v21)


def set_info(**fields):
    def change(root):
        path = root / "meta/info.json"
        info = json.loads(path.read_text()) | fields
        path.write_text(json.dumps({key: value for key, value in info.items() if value != "absent"}))

    return change


def set_lines(name, text):
    return lambda root: (root / "meta" / name).write_text(text + "\n")


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (set_info(video_path="absent"), r"info.json: video_path is None; .* video_key, episode_chunk"),
        (set_info(video_path=None), r"info.json: video_path is None"),
        (set_info(data_path="data/{chunk}.parquet"), r"info.json: data_path is 'data/\{chunk\}.parquet'; it can use"),
        (set_info(features=[]), r"info.json: a field is not of the type"),
        (set_info(features={"action": {"shape": [4]}}), r"info.json: the field 'dtype' is missing"),
        (set_info(fps=True), r"info.json: fps is True"),
        (set_info(robot_type=5), r"info.json: robot_type is 5; it must be a name"),
        (set_lines("info.json", "[]"), r"info.json: holds a list"),
        (set_lines("episodes.jsonl", '{"episode_index": 0, "length": 23}'), r"episodes.jsonl: the field 'tasks'"),
        (set_lines("episodes.jsonl", "[1]"), r"episodes.jsonl, line 1: holds a list, no mapping"),
        (
            set_lines("episodes.jsonl", '{"episode_index": 0, "length": 23, "tasks": "push"}'),
            r"episodes.jsonl: .*tasks is 'push', not a list",
        ),
        (
            set_lines("episodes.jsonl", '{"episode_index": 0, "length": 23, "tasks": ["push"]}\n' * 2),
            "names episode 0 twice",
        ),
        (set_lines("tasks.jsonl", '{"task": "push"}'), r"tasks.jsonl: the field 'task_index' is missing"),
    ],
)
def test_malformed_metadata_is_one_line_that_names_the_file(own_v21, spoil, line):
    spoil(own_v21)
    with pytest.raises(DataError, match=line) as caught:
        open_index(own_v21)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("column", ["tasks", "length", "data/file_index", f"videos/{CAMERA}/from_timestamp"])
def test_malformed_episode_table_is_one_line_that_names_the_file(own_v30, column):
    (path,) = own_v30.glob("meta/episodes/*/*.parquet")
    pd.read_parquet(path).drop(columns=column).to_parquet(path)
    with pytest.raises(DataError, match=rf"file-000.parquet: the field '{column}' is missing"):
        open_index(own_v30)


def test_an_instruction_may_hold_a_line_separator(own_v21):
    text = "push\u2028the cube"
    lines = [{"task_index": 0, "task": text}, {"task_index": 1, "task": TASKS[1]}]
    (own_v21 / "meta/tasks.jsonl").write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
    assert open_index(own_v21).tasks == {0: text, 1: TASKS[1]}


def test_global_indices_are_those_of_the_tables_after_an_episode_was_deleted(own_v21, v21, tmp_path):
    """Lengths would add up to 23 for episode 2, whose frames carry 63 to 79."""
    path = own_v21 / "meta/episodes.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], *lines[2:]]))
    index = open_index(own_v21)
    assert [(e.episode_index, e.first_index) for e in index.episodes] == [(0, 0), (2, 63), (3, 80)]
    assert index.total_frames == sum(LENGTHS)
    sources = [SourceConfig(str(own_v21)), SourceConfig(str(v21))]
    dataset = SegmentDataset(DataConfig(sources, chunk_length=5, image_size=0, cache_dir=str(tmp_path / "cache")))
    samples = dataset[range(len(dataset))].sample_id[:, 0].tolist()
    assert len(set(samples)) == len(samples)


def test_episodes_that_share_global_indices_are_refused(own_v21):
    states, actions = episode_values(2, LENGTHS[2])
    write_table(table_path(own_v21, 2), 2, states, actions, first_index=10)
    with pytest.raises(DataError, match=r"000002.parquet: episode 2 starts at index 10, which is episode 0's"):
        open_index(own_v21)


def test_hub_ids_and_paths(v21, tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("HF_LEROBOT_HOME", str(home))
    (home / "owner").mkdir(parents=True)
    (home / "owner/cubes").symlink_to(v21)
    assert open_index("owner/cubes").num_frames == sum(LENGTHS)
    assert open_index("owner/other", root=v21).num_frames == sum(LENGTHS)
    with pytest.raises(DataError, match="no such folder, and not a hub id"):
        open_index(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"no meta/info.json here"):
        open_index(tmp_path)


def test_hub_id_without_a_network_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        DataError, match=r"owner/absent: no such folder here, not in .*the hub did not give it"
    ) as caught:
        open_index("owner/absent")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_hub_that_cannot_be_reached_is_said_in_plain_words(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))

    def send(*arguments, **named):
        raise requests.ConnectionError("HTTPSConnectionPool(...): Max retries exceeded (Caused by NameResolutionError)")

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", send)
    with pytest.raises(DataError, match=r"the hub did not give it \(it cannot be reached from here\)$"):
        open_index("owner/absent")


@pytest.fixture
def hub(v21, monkeypatch):
    """The hub's download as a copy of a local dataset, which can be cut off after the metadata."""
    calls, cut = [], []

    def download(repo_id, *, repo_type, revision, local_dir):
        calls.append((repo_id, repo_type, revision))
        shutil.copytree(v21 / "meta", local_dir / "meta", dirs_exist_ok=True)
        if cut:
            raise cut.pop()
        shutil.copytree(v21, local_dir, dirs_exist_ok=True)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.setattr(
        "huggingface_hub.HfApi.dataset_info",
        lambda api, repo_id, *, revision: DatasetInfo(id=repo_id, sha=f"commit of {revision}"),
    )
    return calls, cut


def test_an_interrupted_download_goes_on_and_a_whole_one_is_not_repeated(hub, tmp_path, monkeypatch):
    calls, cut = hub
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    cut += [ConnectionError("the line is\ndead"), KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        open_index("owner/cubes")
    with pytest.raises(DataError, match=r"owner/cubes: only in part in .*the hub did not give it \(the line is\)"):
        open_index("owner/cubes")
    assert open_index("owner/cubes").num_frames == sum(LENGTHS)
    assert open_index("owner/cubes").num_frames == sum(LENGTHS)
    assert calls == [("owner/cubes", "dataset", "commit of None")] * 3


def test_a_part_of_a_download_is_not_taken_for_all_of_it_without_a_network(hub, tmp_path, monkeypatch):
    _, cut = hub
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    cut.append(ConnectionError("dead"))
    with pytest.raises(DataError, match="the hub did not give it"):
        open_index("owner/cubes")
    monkeypatch.undo()
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match=r"owner/cubes: only in part in .*offline"):
        open_index("owner/cubes")


def test_another_revision_is_never_passed_off_as_the_one_asked_for(hub, v21, tmp_path):
    calls, _ = hub
    assert open_index("owner/cubes", root=tmp_path / "cubes", revision="v2").num_frames == sum(LENGTHS)
    assert open_index("owner/cubes", root=tmp_path / "cubes", revision="v2").num_frames == sum(LENGTHS)
    assert calls == [("owner/cubes", "dataset", "commit of v2")]
    with pytest.raises(ConfigError, match="cubes: holds the revision 'v2', and 'v3' is asked for"):
        open_index("owner/cubes", root=tmp_path / "cubes", revision="v3")
    with pytest.raises(ConfigError, match="cubes: holds the revision 'v2', and 'main' is asked for"):
        open_index("owner/cubes", root=tmp_path / "cubes")
    with pytest.raises(ConfigError, match="nothing says of which revision this folder is, and 'v2' is asked for"):
        open_index("owner/cubes", root=v21, revision="v2")
    with pytest.raises(ConfigError, match="is a folder, and the revision 'v2' one of a hub id"):
        open_index(v21, revision="v2")


def test_of_several_processes_one_fetches(hub, tmp_path, monkeypatch):
    calls, _ = hub
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    with ThreadPoolExecutor(4) as workers:  # a lock of the file system holds between threads as between processes
        found = list(workers.map(lambda _: open_index("owner/cubes").num_frames, range(4)))
    assert found == [sum(LENGTHS)] * 4
    assert len(calls) == 1


def test_an_error_of_the_hub_without_words_is_named(hub, tmp_path, monkeypatch):
    _, cut = hub
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    cut.append(TimeoutError())
    with pytest.raises(DataError, match=r"the hub did not give it \(TimeoutError\)"):
        open_index("owner/cubes")


def test_an_end_that_is_one_frame_short_in_the_metadata_is_no_shortage(own_v30):
    """Some recorders write the time of the last frame where LeRobot writes its end; the frames are all there."""
    for file in own_v30.glob("meta/episodes/*/*.parquet"):
        table = pq.read_table(file)
        for name in [name for name in table.column_names if name.endswith("/to_timestamp")]:
            shorter = pc.subtract(table[name], 1.0 / 10)
            table = table.set_column(table.column_names.index(name), name, shorter)
        pq.write_table(table, file)
    index = open_index(own_v30)
    assert not index.left_out
    episode = index.episodes[0]
    key = index.camera_keys[0]
    assert len(list(decode_episode(episode, index.features[key], index.fps))) == episode.length


def test_an_episode_that_ends_in_the_next_ones_frames_is_refused(own_v30):
    file = next(own_v30.glob("meta/episodes/*/*.parquet"))
    table = pq.read_table(file)
    for suffix in ("from_timestamp", "to_timestamp"):
        name = next(name for name in table.column_names if name.endswith(suffix))
        values = [value - (0.1 if row else 0.0) for row, value in enumerate(table[name].to_pylist())]
        if suffix == "to_timestamp":
            values = [value - 0.1 for value in table[name].to_pylist()]
        table = table.set_column(table.column_names.index(name), name, [values])
    pq.write_table(table, file)
    with pytest.raises(DataError, match="the video has"):
        open_index(own_v30)


def test_a_dataset_without_a_usable_episode_can_still_be_looked_at(own_v21):
    for path in own_v21.glob("data/*/*.parquet"):
        path.write_bytes(b"nothing")
    with pytest.raises(DataError, match="no usable episode"):
        open_index(own_v21, skip_bad_episodes=True)
    index = open_index(own_v21, skip_bad_episodes=True, may_be_empty=True)
    assert index.episodes == ()
    assert len(index.left_out) == 4
    assert run(["info", str(own_v21)]) == 0
