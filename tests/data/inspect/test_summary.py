"""What is found in a dataset, against plain loops, on episodes with known oddities."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.corruptions import corrupt_dataset, paper_corruptions
from ptr_robot.data.ground_truth import GROUND_TRUTH_FILE, EpisodeTruth, Fault, write_ground_truth
from ptr_robot.data.inspect.motion import IDLE_SHARE, EpisodeMotion, Motion, Scale, measure_motion
from ptr_robot.data.inspect.oddities import find_duplicates, name_episodes
from ptr_robot.data.inspect.summary import summarise
from ptr_robot.data.lerobot.feature_statistics import RunningStatistics
from ptr_robot.data.lerobot.index import open_index
from ptr_robot.data.segments.dataset import SegmentDataset
from ptr_robot.errors import ConfigError, DataError
from tests.data.v21_writer import episode_values, table_path, write_table

FPS = 10
LENGTHS = (60, 62, 58, 62, 61, 63, 59, 140, 20, 60, 61)
COPIED, COPY, IDLE, JERKY, LONG, SHORT = 1, 3, 5, 6, 7, 8
TASK, MISSPELT = "Lift the cube.", "lift the  cube"


def movement(episode: int) -> tuple[np.ndarray, np.ndarray]:
    """States (length, 2) and actions (length, 3): smooth, a gripper command, and a dimension that never moves."""
    source = COPIED if episode == COPY else episode
    length = LENGTHS[source]
    time = np.arange(length) / 60
    if episode == IDLE:
        time[20:] = time[20] + np.maximum(time[20:] - time[50], 0)
    generator = np.random.default_rng(source)
    phases, speeds = generator.uniform(0, 6, size=2), generator.uniform(5, 9, size=2)
    states = np.sin(phases + speeds * time[:, None])
    commands = states + 0.1
    if episode == JERKY:
        commands = commands + generator.normal(scale=0.2, size=commands.shape)
    gripper = np.where(time > 0.5, 1.0, -1.0)
    if episode == COPY:
        states = states + 1e-3
    return states.astype("f4"), np.column_stack([commands, gripper]).astype("f4")


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> Path:
    """Eleven episodes as LeRobot records them; what is odd about some is known."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = tmp_path_factory.mktemp("odd") / "odd"
    features = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "stuck"]},
        "action": {"dtype": "float32", "shape": (3,), "names": None},
    }
    dataset = LeRobotDataset.create("owner/odd", fps=FPS, features=features, root=root, use_videos=False)
    for episode in range(len(LENGTHS)):
        states, actions = movement(episode)
        for state, action in zip(states, actions, strict=True):
            frame = {"observation.state": np.append(state, 4).astype("f4"), "action": action}
            dataset.add_frame({**frame, "task": MISSPELT if episode == 9 else TASK})
        dataset.save_episode()
    dataset.finalize()
    truths = [EpisodeTruth(n, (Fault("pause", 20, 49),) if n == IDLE else (), "expert", n != 0) for n in range(11)]
    write_ground_truth(root, truths)
    return root


@pytest.fixture(scope="module")
def summary(odd):
    return summarise(open_index(odd))


def found(summary, kind: str) -> list[tuple[int, ...]]:
    return [oddity.episodes for oddity in summary.oddities if oddity.kind == kind]


def test_every_planted_oddity_is_found_and_no_other(summary):
    assert found(summary, "near duplicate") == [(COPIED, COPY)]
    assert found(summary, "long episode") == [(LONG,)]
    assert found(summary, "short episode") == [(SHORT,)]
    assert found(summary, "jerky actions") == [(JERKY,)]
    assert found(summary, "idle stretch") == [(IDLE,)]
    assert len(found(summary, "one instruction, several spellings")) == 1
    (constant,) = (oddity for oddity in summary.oddities if oddity.kind == "constant dimension")
    assert constant.message.startswith("observation.state[2] stuck:")
    assert len(summary.oddities) == 7


def test_counts_are_those_of_the_tables(summary, odd):
    lengths = [LENGTHS[COPIED] if episode == COPY else length for episode, length in enumerate(LENGTHS)]
    assert (summary.num_episodes, summary.num_frames) == (11, sum(lengths))
    assert summary.hours == pytest.approx(sum(lengths) / FPS / 3600)
    assert summary.tasks == {TASK: 10, MISSPELT: 1}
    assert summary.features == {"observation.state": ("float32", (3,)), "action": ("float32", (3,))}
    assert (summary.lengths.minimum, summary.lengths.median, summary.lengths.maximum) == (20, 61, 140)
    edges = summary.lengths.bin_edges
    for place, count in enumerate(summary.lengths.counts):
        last = edges[place + 1] - (place < len(summary.lengths.counts) - 1)
        assert count == sum(edges[place] <= length <= last for length in lengths)
    assert sum(summary.lengths.counts) == 11


@pytest.mark.parametrize("offset", [1, 16, 20, 61])
def test_missing_futures_are_counted_frame_by_frame(odd, offset):
    futures = summarise(open_index(odd), offset_steps=offset).futures
    lengths = [record.length for record in open_index(odd).episodes]
    without = [sum(start + offset >= length for start in range(length)) for length in lengths]
    assert futures.num_without_future == sum(without)
    assert futures.num_chunks == sum(lengths)
    assert futures.num_short_episodes == sum(count == length for count, length in zip(without, lengths, strict=True))


def test_jerk_and_idle_frames_are_those_of_plain_loops(odd):
    index = open_index(odd)
    motion = measure_motion(index)
    moves = [movement(episode) for episode in range(len(LENGTHS))]
    state_scale = np.concatenate([states for states, _ in moves]).std(axis=0)
    action_scale = np.concatenate([actions for _, actions in moves]).std(axis=0)
    for measured, (states, actions) in zip(motion.episodes, moves, strict=True):
        bends = [
            abs(actions[t + 1, d] - 2 * actions[t, d] + actions[t - 1, d]) / action_scale[d]
            for t in range(1, len(actions) - 1)
            for d in (0, 1)  # the third is the gripper's
        ]
        assert measured.jerk == pytest.approx(np.mean(bends), rel=1e-3)
        idle = set()
        for start in range(len(states) - FPS + 1):
            window = states[start : start + FPS] / state_scale
            if all(window[:, d].max() - window[:, d].min() < IDLE_SHARE for d in (0, 1)):
                idle |= set(range(start, start + FPS))
        assert measured.idle_frames == len(idle)


def test_a_late_frame_is_a_jump_in_time(odd, tmp_path):
    own = Path(shutil.copytree(odd, tmp_path / "late"))
    file = next(own.glob("data/*/*.parquet"))
    frames = pandas.read_parquet(file)
    late = (frames["episode_index"] == 4) & (frames["frame_index"] >= 30)
    frames.loc[late, "timestamp"] += np.float32(0.3 / FPS)
    frames.to_parquet(file, index=False)
    (oddity,) = (o for o in summarise(open_index(own)).oddities if o.kind == "jump in time")
    assert oddity.episodes == (4,)
    assert "130 ms" in oddity.message


def test_ground_truth_is_counted(summary):
    truth = summary.truth
    assert (truth.num_faulty, truth.by_kind, truth.by_operator) == (1, {"pause": 1}, {"expert": 11})
    assert (truth.num_successes, truth.num_failures) == (10, 1)


TRUTH = '{"episode_index": %s}\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TRUTH % 0 + "5\n", r"jsonl, line 2: not a ground-truth record \(5 is no mapping\)"),
        (TRUTH % '"a"', r"jsonl, line 1: not .*episode_index is 'a'"),
        (TRUTH % "true", r"jsonl, line 1: not .*episode_index is True"),
        ("{}\n", r"jsonl, line 1: not .*missing .*'episode_index'"),
        ('{"episode_index": 0, "faults": [{"kind": 5}]}', r"jsonl, line 1: not .*kind is 5"),
        ('{"episode_index": 0, "faults": [5]}', r"jsonl, line 1: not .*5 is no mapping"),
        ('{"episode_index": 0, "fault": []}', r"jsonl, line 1: not .*unexpected .*'fault'"),
        ("\udcff", r"jsonl, line 1: not .*can't decode"),
        (TRUTH % 0 + TRUTH % 0, r"jsonl, line 2: names episode 0 again"),
        ("".join(TRUTH % number for number in range(5)), r"jsonl: there is no episode 4 in the dataset"),
        ("".join(TRUTH % number for number in range(3)), r"jsonl: there is no line for episode 3"),
    ],
)
def test_a_ground_truth_that_is_not_of_the_dataset_is_one_line(own_v21, tmp_path, text, line):
    (own_v21 / GROUND_TRUTH_FILE).write_text(text, errors="surrogateescape")
    with pytest.raises(DataError, match=line) as caught:
        summarise(open_index(own_v21))
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=line):
        corrupt_dataset(own_v21, tmp_path / "out", paper_corruptions("tt"))
    assert [path.name for path in tmp_path.iterdir()] == ["cubes"]


def test_a_count_that_the_episodes_do_not_bear_out_is_odd(own_v21):
    path = own_v21 / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"total_episodes": 99999, "total_frames": 7}))
    counts = [o.message for o in summarise(open_index(own_v21)).oddities if o.kind == "count that is not so"]
    assert len(counts) == 2
    assert counts[0].startswith("meta/info.json says total_episodes 99999, the list of episodes has 4")
    assert counts[1].startswith("meta/info.json says total_frames 7, the list of episodes has 111")


def test_an_unknown_robot_has_no_slots_and_a_known_one_its_own(summary, recorded):
    assert (summary.robot, summary.slots) == (None, ())
    known = summarise(open_index(recorded))
    assert known.robot == "fr3"
    assert [dict(slots.filled) for slots in known.slots] == [{"right_arm_joints": 7, "right_hand": 6}] * 2
    assert [slots.mismatch for slots in known.slots] == [None, None]


def test_episodes_that_cannot_be_used_are_listed(own_v21):
    next(own_v21.glob("videos/*/*/episode_000001.mp4")).unlink()
    next(own_v21.glob("data/*/episode_000002.parquet")).unlink()
    summary = summarise(open_index(own_v21, skip_bad_episodes=True, camera_keys=()))
    assert (list(summary.unusable), list(summary.without_pictures)) == ([2], [1])
    assert "no such file" in summary.unusable[2]
    assert "no such file" in summary.without_pictures[1]
    assert summary.num_episodes == 3


def test_an_episode_whose_task_has_no_name_cannot_be_used(own_v21):
    tasks = own_v21 / "meta/tasks.jsonl"
    tasks.write_text(tasks.read_text().splitlines()[0] + "\n")
    summary = summarise(open_index(own_v21, skip_bad_episodes=True, camera_keys=()))
    assert list(summary.unusable) == [1, 3]
    assert f"episode_000003.parquet: episode 3 has task_index 1 in frame 0, which {tasks}" in summary.unusable[3]


def test_an_instruction_of_bytes_that_are_no_text_is_one_line(own_v30):
    path = own_v30 / "meta/tasks.parquet"
    table = pq.read_table(path)
    place = next(n for n, field in enumerate(table.schema) if "string" in str(field.type))
    garbled = pa.array([b"push\xffthe cube", b"lift the cube"]).view(pa.string())
    pq.write_table(table.set_column(place, table.schema.names[place], garbled), path)
    with pytest.raises(DataError, match=r"tasks\.parquet: not a readable parquet file \(.*UTF8"):
        open_index(own_v30)


def test_instructions_are_those_of_the_list_of_tasks_as_in_training(own_v30, tmp_path):
    path = own_v30 / "meta/tasks.parquet"
    tasks = pandas.read_parquet(path)
    tasks.rename(index={tasks.index[0]: "shove the cube"}).to_parquet(path)
    index = open_index(own_v30)
    assert summarise(index).tasks == {"shove the cube": 2, "lift the cube": 2}
    dataset = SegmentDataset(DataConfig([SourceConfig(str(own_v30))], image_size=0, cache_dir=str(tmp_path / "cache")))
    trained = dataset[dataset.first_segments].instructions
    assert [(text,) for text in trained] == [episode.tasks for episode in index.episodes]


def test_a_vector_with_nan_is_named_and_the_rest_is_measured_without_it(own_v21):
    states, actions = episode_values(2, 17)
    states[4, 1] = np.inf
    write_table(table_path(own_v21, 2), 2, states, actions, 63)
    summary = summarise(open_index(own_v21, vector_keys=["action"]))
    (odd,) = (oddity for oddity in summary.oddities if oddity.kind == "not finite")
    assert (odd.episodes, odd.message.split()[0]) == ((2,), "'observation.state'")
    motion = measure_motion(open_index(own_v21, vector_keys=["action"]))
    assert (motion.states.keys, motion.actions.keys) == ((), ("action",))
    assert all(np.isfinite(episode.jerk) for episode in motion.episodes)


@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6])
def test_episodes_far_from_zero_are_not_duplicates_and_copies_still_are(ratio):
    """The last dimension is like a height that hardly changes: its mean is many of its deviations."""
    generator = np.random.default_rng(0)
    places = generator.normal(size=(20, 16, 4)) + np.array([0, 0, 0, ratio])
    places[7] = places[3] + 1e-3
    episodes = [EpisodeMotion(n, 0, 0, 0, 0, signature.ravel()) for n, signature in enumerate(places)]
    scale = Scale((), (), *[np.zeros(0)] * 3, np.zeros(0, dtype=bool))
    assert [oddity.episodes for oddity in find_duplicates(Motion(scale, scale, tuple(episodes), {}))] == [(3, 7)]


def test_discrete_dimensions_are_those_with_two_values_however_they_come():
    parts = [[[0, 1, 5, 0], [0, 1, 5, 1]], [[1, 2, 5, 0], [1, 2, 5, 1]], [[0, 3, 5, 1], [1, 1, 5, 2]]]
    running = RunningStatistics(4, 6)
    for part in parts:
        running.add(np.array(part, dtype=float))
    everything = np.array(parts, dtype=float).reshape(6, 4)
    assert running.is_discrete.tolist() == [len(np.unique(column)) <= 2 for column in everything.T]


def test_both_versions_of_a_dataset_look_alike(v21, v30):
    old, new = (dataclasses.asdict(summarise(open_index(root))) for root in (v21, v30))
    assert {key for key in old if old[key] != new[key]} == {"dataset", "version"}


def test_a_summary_is_plain_json(summary):
    copy = json.loads(json.dumps(dataclasses.asdict(summary), allow_nan=False))
    assert copy["tasks"] == summary.tasks


def test_an_offset_below_one_is_refused(odd):
    with pytest.raises(ConfigError, match="offset_steps is 0"):
        summarise(open_index(odd), offset_steps=0)


def test_many_episodes_are_named_briefly():
    assert name_episodes([3]) == "episode 3"
    assert name_episodes([3, 4]) == "episodes 3, 4"
    assert name_episodes(list(range(9))) == "episodes 0, 1, 2, 3, 4, 5 and 3 more"


def test_the_real_g1_set(g1):
    summary = summarise(open_index(g1))
    assert (summary.num_episodes, summary.num_frames, summary.robot) == (20, 6921, "unitree_g1")
    assert all(sum(size for _, size in slots.filled) == 26 for slots in summary.slots)
    assert summary.futures.num_without_future == 20 * 16
    assert summary.unusable == {}
