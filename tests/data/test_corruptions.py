"""Corrupted datasets on disk, against their source: what was touched, what was not, and that LeRobot reads them."""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptr_robot.data.corruptions import ActionNoise, LabelNoise, Truncation, corrupt_dataset, paper_corruptions
from ptr_robot.data.ground_truth import EpisodeTruth, Fault, read_ground_truth, write_ground_truth
from ptr_robot.data.index import open_index
from ptr_robot.errors import ConfigError, DataError

from . import v21_writer

FPS = 10
LENGTHS = (40, 23, 31, 57, 20, 44, 36, 29, 50, 33)
INSTRUCTIONS = ("open the door", "press the button", "lift the cube")
CAMERA = "observation.images.front"


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """Ten episodes as LeRobot records them; the brightness of a frame tells its episode and its time."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = tmp_path_factory.mktemp("source") / "mixed"
    features = {
        "observation.state": {"dtype": "float32", "shape": (2,), "names": None},
        "action": {"dtype": "float32", "shape": (3,), "names": None},
        CAMERA: {"dtype": "video", "shape": (64, 64, 3), "names": ["height", "width", "channels"]},
    }
    dataset = LeRobotDataset.create("owner/mixed", fps=FPS, features=features, root=root, vcodec="h264")
    dataset.meta.update_chunk_settings(data_files_size_in_mb=0.01, video_files_size_in_mb=0.01)  # several files
    generator = np.random.default_rng(1)
    for episode, length in enumerate(LENGTHS):
        for frame in range(length):
            values = generator.normal(size=3) * (1, 20, 0)  # the last dimension never moves
            dataset.add_frame(
                {
                    "observation.state": generator.normal(size=2).astype("f4"),
                    "action": values.astype("f4"),
                    CAMERA: np.full((64, 64, 3), 10 + 15 * episode + frame, dtype=np.uint8),
                    "task": INSTRUCTIONS[episode % 3],
                }
            )
        dataset.save_episode()
    dataset.finalize()
    assert len(list(root.glob("data/*/*.parquet"))) > 1
    assert len(list(root.glob("videos/*/*/*.mp4"))) > 1
    return root


@pytest.fixture(scope="module")
def corrupted(source, tmp_path_factory):
    """Each kind's dataset, made once."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("corrupted") / kind
            corrupt_dataset(source, made[kind], paper_corruptions(kind), seed=2)
        return made[kind]

    return make


def rows(root: Path) -> dict[int, pandas.DataFrame]:
    files = sorted(root.glob("data/*/*.parquet"))
    frames = pandas.concat([pandas.read_parquet(file) for file in files], ignore_index=True)
    return dict(iter(frames.groupby("episode_index")))


def episode_rows(root: Path) -> dict[int, dict]:
    tables = [pq.read_table(file, partitioning=None) for file in sorted(root.glob("meta/episodes/*/*.parquet"))]
    return {row["episode_index"]: row for table in tables for row in table.to_pylist()}


def column(root: Path, key: str) -> np.ndarray:  # (frames, dimensions)
    """One column of the whole dataset."""
    parts = [np.stack(frame[key]) for frame in rows(root).values()]
    return np.concatenate(parts).reshape(sum(map(len, parts)), -1)


def faults(root: Path, kind: str) -> dict[int, Fault]:
    truths = read_ground_truth(root)
    return {n: fault for n, truth in truths.items() for fault in truth.faults if fault.kind == kind}


def same(before: pandas.DataFrame, after: pandas.DataFrame, *but: str) -> bool:
    """Bit for bit, but for some columns."""
    kept = [column for column in before if column not in but]
    return all(
        np.stack(before[column]).tobytes() == np.stack(after[column])[: len(before)].tobytes() for column in kept
    )


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_noise_has_the_stated_strength_and_touches_actions_alone(source, corrupted):
    before, after, hit = rows(source), rows(corrupted("ani")), faults(corrupted("ani"), "action_noise")
    assert len(hit) == round(0.3 * len(LENGTHS))
    deviations = column(source, "action").std(axis=0)
    noise = []
    for episode in before:
        if episode in hit:
            assert same(before[episode], after[episode], "action")
            noise.append(np.stack(after[episode]["action"]) - np.stack(before[episode]["action"]))
            assert (hit[episode].first_frame, hit[episode].last_frame) == (0, LENGTHS[episode] - 1)
        else:
            assert same(before[episode], after[episode])
    scaled = np.concatenate(noise)[:, :2] / deviations[:2]  # (frames, 2) in units of the deviation
    assert scaled.std() == pytest.approx(0.1, rel=0.15)
    assert abs(scaled.mean()) < 4 * 0.1 / np.sqrt(scaled.size)
    assert not np.concatenate(noise)[:, 2].any()


def test_raw_noise_is_in_the_units_of_the_actions(source, tmp_path):
    corrupt_dataset(source, tmp_path / "raw", [ActionNoise(fraction=1.0, sigma=0.5, unit="raw")])
    noise = column(tmp_path / "raw", "action") - column(source, "action")  # (frames, 3)
    assert noise.std(axis=0) == pytest.approx(0.5, rel=0.12)


def test_truncated_episodes_are_the_beginning_of_their_source(source, corrupted):
    before, after, hit = rows(source), rows(corrupted("tt")), faults(corrupted("tt"), "truncation")
    listed = episode_rows(corrupted("tt"))
    assert len(hit) == round(0.25 * len(LENGTHS))
    next_index = 0
    for episode, length in enumerate(LENGTHS):
        kept = len(after[episode])
        assert (4 * length <= 10 * kept <= 7 * length) if episode in hit else kept == length
        assert same(after[episode], before[episode], "index")
        assert after[episode]["index"].tolist() == list(range(next_index, next_index + kept))
        row = listed[episode]
        assert (row["length"], row["dataset_from_index"], row["dataset_to_index"]) == (
            kept,
            next_index,
            next_index + kept,
        )
        span = row[f"videos/{CAMERA}/to_timestamp"] - row[f"videos/{CAMERA}/from_timestamp"]
        assert span == pytest.approx(kept / FPS)
        next_index += kept
    for episode, fault in hit.items():
        assert fault.first_frame == fault.last_frame == len(after[episode]) - 1
        assert fault.details["original_length"] == LENGTHS[episode]
    assert json.loads((corrupted("tt") / "meta/info.json").read_text())["total_frames"] == next_index


def test_wrong_instructions_are_other_real_ones(source, corrupted):
    before, after, hit = rows(source), rows(corrupted("ln")), faults(corrupted("ln"), "label_noise")
    listed = episode_rows(corrupted("ln"))
    tasks = pandas.read_parquet(corrupted("ln") / "meta/tasks.parquet")["task_index"]
    assert len(hit) == round(0.2 * len(LENGTHS))
    for episode in before:
        own = INSTRUCTIONS[episode % 3]
        given = listed[episode]["tasks"]
        assert set(after[episode]["task_index"]) == {tasks[given[0]]}
        assert same(before[episode], after[episode], "task_index")
        if episode in hit:
            assert given[0] in set(INSTRUCTIONS) - {own}
            assert hit[episode].details == {"instruction": given[0], "original": [own]}
        else:
            assert given == [own]


def test_instructions_come_from_the_list_of_tasks_where_the_episodes_still_have_older_ones(source, tmp_path):
    own = Path(shutil.copytree(source, tmp_path / "own"))
    tasks = pandas.read_parquet(own / "meta/tasks.parquet")
    tasks.rename(index={INSTRUCTIONS[0]: "close the door"}).to_parquet(own / "meta/tasks.parquet")
    corrupt_dataset(own, tmp_path / "out", [LabelNoise(fraction=1.0)])
    known = {"close the door", *INSTRUCTIONS[1:]}
    written = {number: row["tasks"] for number, row in episode_rows(tmp_path / "out").items()}
    assert {text for texts in written.values() for text in texts} == known
    for number, fault in faults(tmp_path / "out", "label_noise").items():
        assert written[number] == [fault.details["instruction"]]
        assert fault.details["original"] == list(open_index(own).episode(number).tasks)


def test_combined_holds_the_three(source, corrupted):
    parts = {"action_noise": "ani", "truncation": "tt", "label_noise": "ln"}
    noisy, combined = rows(corrupted("ani")), rows(corrupted("combined"))
    for kind, name in parts.items():
        assert faults(corrupted("combined"), kind).keys() == faults(corrupted(name), kind).keys()
    for episode, frame in combined.items():
        assert same(frame, noisy[episode], "index", "task_index")


def test_lerobot_reads_the_result_and_its_pixels_are_the_sources(source, corrupted):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    original = LeRobotDataset("owner/mixed", root=source, video_backend="pyav")
    dataset = LeRobotDataset("owner/combined", root=corrupted("combined"), video_backend="pyav")
    assert len(dataset) == dataset.meta.total_frames == len(column(corrupted("combined"), "index"))
    starts = np.cumsum([0, *LENGTHS])
    for index in np.linspace(0, len(dataset) - 1, 23).astype(int):
        item = dataset[int(index)]
        twin = original[int(starts[item["episode_index"]] + item["frame_index"])]
        assert (item[CAMERA] == twin[CAMERA]).all()
        brightness = 10 + 15 * item["episode_index"] + item["frame_index"]
        assert 255 * item[CAMERA].mean() == pytest.approx(float(brightness), abs=3)


def test_statistics_are_those_of_what_was_written(corrupted):
    root = corrupted("combined")
    stats, listed = json.loads((root / "meta/stats.json").read_text()), episode_rows(root)
    for key in ("action", "observation.state", "timestamp", "index", "task_index"):
        values = column(root, key).astype(float)
        assert stats[key]["count"] == [len(values)]
        for name in ("mean", "std", "min", "max"):
            expected = getattr(np, name)(values, axis=0)
            assert stats[key][name] == pytest.approx(expected, rel=1e-3, abs=1e-4)
    for episode, frame in rows(root).items():
        actions = np.stack(frame["action"]).astype(float)  # (frames, 3)
        assert listed[episode]["stats/action/mean"] == pytest.approx(actions.mean(axis=0), abs=1e-3)
        assert listed[episode]["stats/action/std"] == pytest.approx(actions.std(axis=0), rel=1e-3, abs=1e-3)


def test_statistics_of_untouched_features_stay_bit_for_bit(source, corrupted):
    before, after = (json.loads((root / "meta/stats.json").read_text()) for root in (source, corrupted("ani")))
    assert {key for key in before if before[key] != after[key]} == {"action"}


def test_picture_statistics_follow_the_cut(corrupted):
    listed, hit = episode_rows(corrupted("tt")), faults(corrupted("tt"), "truncation")
    for episode in hit:
        kept = 10 + 15 * episode + np.arange(listed[episode]["length"])  # the brightness of each frame that stays
        mean, deviation = (np.ravel(listed[episode][f"stats/{CAMERA}/{name}"]) for name in ("mean", "std"))
        assert 255 * mean == pytest.approx(kept.mean(), abs=3)
        assert 255 * deviation == pytest.approx(kept.std(), abs=2)


def test_pictures_in_the_table_are_cut_with_it(recorded, tmp_path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    corrupt_dataset(recorded, tmp_path / "cut", [Truncation(fraction=1.0)])
    dataset = LeRobotDataset("owner/cut", root=tmp_path / "cut", video_backend="pyav")
    key = "observation.images.wrist"
    for row in episode_rows(tmp_path / "cut").values():
        span = range(row["dataset_from_index"], row["dataset_to_index"])
        frames = np.stack([dataset[index][key].numpy() for index in span])  # (n, 3, H, W)
        assert np.ravel(row[f"stats/{key}/mean"]) == pytest.approx(frames.mean(axis=(0, 2, 3)), abs=1e-4)
        assert np.ravel(row[f"stats/{key}/std"]) == pytest.approx(frames.std(axis=(0, 2, 3)), abs=1e-4)


def test_v21_is_converted_on_the_way_and_stays_untouched(v21, tmp_path):
    before = content(v21)
    result = corrupt_dataset(v21, tmp_path / "out", [ActionNoise(fraction=0.5)])
    assert content(v21) == before
    old, new = open_index(v21), open_index(result.root)
    assert new.version == "v3.0"
    assert [e.length for e in new.episodes] == [e.length for e in old.episodes]
    assert sum(truth.is_faulty for truth in result.truths) == round(0.5 * len(old.episodes))


def test_the_same_seed_gives_the_same_files(source, corrupted, tmp_path):
    corrupt_dataset(source, tmp_path / "again", paper_corruptions("combined"), seed=2)
    corrupt_dataset(source, tmp_path / "other", paper_corruptions("combined"), seed=3)
    assert content(tmp_path / "again") == content(corrupted("combined"))
    assert content(tmp_path / "other") != content(corrupted("combined"))


def test_steps_in_turn_add_up(source, corrupted, tmp_path):
    corrupt_dataset(corrupted("ani"), tmp_path / "both", paper_corruptions("ln"), seed=2)
    assert faults(tmp_path / "both", "action_noise") == faults(corrupted("ani"), "action_noise")
    assert faults(tmp_path / "both", "label_noise") == faults(corrupted("ln"), "label_noise")
    recipe = json.loads((tmp_path / "both/meta/ptr_corruption.json").read_text())
    assert [list(step["corruptions"]) for step in recipe] == [["ActionNoise"], ["LabelNoise"]]


def test_known_truth_about_operators_is_carried_over(source, tmp_path):
    own = Path(shutil.copytree(source, tmp_path / "own"))
    known = [EpisodeTruth(n, operator=f"operator {n % 2}", is_success=True) for n in range(len(LENGTHS))]
    write_ground_truth(own, known)
    corrupt_dataset(own, tmp_path / "out", paper_corruptions("tt"))
    for number, truth in read_ground_truth(tmp_path / "out").items():
        assert truth.operator == f"operator {number % 2}"
        assert truth.is_success is (None if truth.is_faulty else True)


def test_videos_are_copies_unless_links_are_asked_for(source, corrupted, tmp_path):
    corrupt_dataset(source, tmp_path / "linked", [LabelNoise()], link_videos=True)
    video = next(source.glob("videos/*/*/*.mp4")).relative_to(source)
    assert (tmp_path / "linked" / video).samefile(source / video)
    assert not (corrupted("ln") / video).samefile(source / video)
    assert (corrupted("ln") / video).read_bytes() == (source / video).read_bytes()


def test_folders_in_the_way_are_refused(source, corrupted, tmp_path):
    with pytest.raises(ConfigError, match="exists already"):
        corrupt_dataset(source, corrupted("ani"), [LabelNoise()])
    with pytest.raises(ConfigError, match="lies inside the dataset"):
        corrupt_dataset(source, source / "copy", [LabelNoise()])
    with pytest.raises(DataError, match="no such dataset folder"):
        corrupt_dataset(tmp_path / "nowhere", tmp_path / "out", [LabelNoise()])
    with pytest.raises(ConfigError, match="did you mean 'action'"):
        corrupt_dataset(source, tmp_path / "out", [ActionNoise()], action_key="actions")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_leaves_nothing(source, tmp_path):
    def interrupt(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corrupt_dataset(source, tmp_path / "out", [LabelNoise()], on_episode=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_process_made_meanwhile_is_named_and_left_alone(source, tmp_path):
    def make_it(done, total):
        (tmp_path / "out/meta").mkdir(parents=True, exist_ok=True)

    with pytest.raises(DataError, match=r"out was made by another process meanwhile; choose another --output_dir"):
        corrupt_dataset(source, tmp_path / "out", [LabelNoise()], on_episode=make_it)
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "meta"]


def test_a_disk_that_takes_no_more_is_one_clear_line(source, tmp_path):
    """A file-size limit of the process stands for the full disk: the system refuses the write in both cases."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    command = [sys.executable, "-m", "ptr_robot.cli.main", "corrupt", str(source), f"--output_dir={tmp_path / 'out'}"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(command, preexec_fn=limit, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith(f"ptr: error: {tmp_path / 'out'}: cannot be written (")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [("stats.json", "{"), ("stats.json", "[1]"), ("ptr_corruption.json", "["), ("ptr_corruption.json", "{}")],
)
def test_metadata_that_cannot_be_read_is_named_before_anything_is_written(source, tmp_path, name, content):
    own = Path(shutil.copytree(source, tmp_path / "own"))
    (own / "meta" / name).write_text(content)
    with pytest.raises(DataError, match=rf"own/meta/{name}: .*; fetch the dataset again") as caught:
        corrupt_dataset(own, tmp_path / "out", paper_corruptions("tt"))
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]


@pytest.mark.parametrize("kind", ["tt", "ani"])
def test_actions_of_text_are_named(source, tmp_path, kind):
    own = Path(shutil.copytree(source, tmp_path / "own"))
    path = own / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path, partitioning=None)
    words = pa.array([["left"] * 3] * len(table))
    pq.write_table(table.set_column(table.schema.get_field_index("action"), "action", words), path)
    with pytest.raises(DataError, match=r"file-000\.parquet: episode 0, 'action', .* type string, not numbers"):
        corrupt_dataset(own, tmp_path / "out", paper_corruptions(kind))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]


def test_a_source_with_lost_rows_or_bad_values_is_named(source, tmp_path):
    own = Path(shutil.copytree(source, tmp_path / "own"))
    file = min(own.glob("data/*/*.parquet"))
    frames = pandas.read_parquet(file)
    frames.drop(index=3).to_parquet(file, index=False)
    with pytest.raises(DataError, match=r"file-000\.parquet: episode 0 has 39 rows, its metadata says 40"):
        corrupt_dataset(own, tmp_path / "out", [LabelNoise()])
    frames.at[3, "action"] = np.array([0, np.nan, 0], dtype="f4")
    frames.to_parquet(file, index=False)
    with pytest.raises(DataError, match=r"file-000\.parquet: episode 0 has nan in 'action', frame 3"):
        corrupt_dataset(own, tmp_path / "out", [ActionNoise()])
    min(own.glob("videos/*/*/*.mp4")).unlink()
    with pytest.raises(DataError, match=r"file-000\.mp4: episode 0, .*: no such file"):
        corrupt_dataset(own, tmp_path / "out", [LabelNoise()])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own"]


def nan_in_an_action(root):
    states, actions = v21_writer.episode_values(1, v21_writer.LENGTHS[1])
    actions[7, 2] = np.nan
    v21_writer.write_table(v21_writer.table_path(root, 1), 1, states, actions, v21_writer.LENGTHS[0])


def short_statistics(root):
    path = root / "meta/episodes_stats.jsonl"
    path.write_text("\n".join(path.read_text().split("\n")[:-2]))


def statistics_of_another_shape(root):
    path = root / "meta/episodes_stats.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1]["stats"]["action"] = {"mean": "unknown"}
    path.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (nan_in_an_action, r"cubes/.*000001.parquet: episode 1 has nan in 'action', frame 7, dimension 2"),
        (lambda root: v21_writer.video_path(root, 2).unlink(), r"cubes/.*000002.mp4: episode 2, .*: no such file"),
        (
            lambda root: v21_writer.video_path(root, 2).write_bytes(b"no"),
            r"cubes/.*000002.mp4: episode 2, .*not a read",
        ),
        (lambda root: v21_writer.table_path(root, 2).unlink(), r"episode 2: .*cubes/.*000002.parquet: no such file"),
        (
            lambda root: os.truncate(v21_writer.table_path(root, 2), 900),
            r"episode 2: .*cubes/.*000002.parquet: not a r",
        ),
        (short_statistics, r"cubes/meta/episodes_stats.jsonl: no line for episode 3"),
        (statistics_of_another_shape, r"cubes: LeRobot cannot convert this v2.1 dataset \(\w+: .+\)"),
        (lambda root: (root / "meta/episodes_stats.jsonl").unlink(), r"cubes/meta/episodes_stats.jsonl: no such file"),
    ],
)
def test_a_bad_v21_source_is_named_by_its_own_file_and_episode(own_v21, tmp_path, spoil, line):
    """Whichever episodes are hit: a NaN in any episode would spoil the deviation that scales the noise of all."""
    spoil(own_v21)
    for seed in range(2):
        with pytest.raises(DataError, match=line) as caught:
            corrupt_dataset(own_v21, tmp_path / "out", [ActionNoise(fraction=0.25)], seed=seed)
        assert "\n" not in str(caught.value)
        assert "partial" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["cubes"]


def test_a_video_that_cannot_be_decoded_is_one_line_about_the_source(v21, tmp_path, monkeypatch):
    def broken(dataset, *arguments):
        raise DataError(f"{dataset.root}/videos/file-000.mp4: frame 0 cannot be decoded")

    monkeypatch.setattr("ptr_robot.data.corruptions.write.write_data", broken)
    with pytest.raises(DataError, match=r"cubes, as LeRobot converts it to v3.0: videos/file-000.mp4: frame") as caught:
        corrupt_dataset(v21, tmp_path / "out", [Truncation(fraction=1.0)])
    assert "\n" not in str(caught.value)
    assert "partial" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_converter_leaves_no_handler_that_writes_into_a_closed_file(v21, tmp_path, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    corrupt_dataset(v21, tmp_path / "out", [LabelNoise()])
    assert logging.root.handlers == []


def test_noise_has_the_stated_strength_on_a_v21_source(v21, tmp_path):
    corrupt_dataset(v21, tmp_path / "out", [ActionNoise(fraction=1.0, sigma=0.1)])
    lengths = v21_writer.LENGTHS
    before = np.concatenate([v21_writer.episode_values(e, n)[1] for e, n in enumerate(lengths)])
    noise = (column(tmp_path / "out", "action") - before) / before.std(axis=0)
    assert noise.std() == pytest.approx(0.1, rel=0.15)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sigma", [1e30, 1e38, 1e39])
def test_noise_beyond_what_statistics_can_hold_is_refused(source, tmp_path, sigma):
    with pytest.raises(DataError, match=r"mixed\b.*, 'action': the statistics would not be finite; lower --sigma"):
        corrupt_dataset(source, tmp_path / "out", [ActionNoise(sigma=sigma)])
    assert list(tmp_path.iterdir()) == []


def test_truncation_and_wrong_instructions_need_no_actions(source, tmp_path):
    for kind in ("tt", "ln"):
        corrupt_dataset(source, tmp_path / kind, paper_corruptions(kind), action_key="nothing of the kind")
        assert read_ground_truth(tmp_path / kind)


def test_actions_that_noise_cannot_be_added_to(own_v21, tmp_path):
    path = own_v21 / "meta/info.json"
    info = json.loads(path.read_text())
    info["features"]["action"]["dtype"] = "int64"
    path.write_text(json.dumps(info))
    with pytest.raises(DataError, match="'action' holds int64 values; Gaussian noise needs floating point"):
        corrupt_dataset(own_v21, tmp_path / "out", [ActionNoise()])
    with pytest.raises(
        ConfigError, match=r"cubes: there is no feature 'actoin' \(--action_key\); did you mean 'action'"
    ):
        corrupt_dataset(own_v21, tmp_path / "out", [ActionNoise()], action_key="actoin")
