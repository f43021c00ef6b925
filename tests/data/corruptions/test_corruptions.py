"""Corrupted datasets on disk, against their source: what was touched, what was not, and that LeRobot reads them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas
import pytest

from ptr_robot.data.corruptions import ActionNoise, LabelNoise, Truncation, corrupt_dataset, paper_corruptions
from ptr_robot.data.ground_truth import EpisodeTruth, read_ground_truth, write_ground_truth
from ptr_robot.data.lerobot.index import open_index

from .corrupted_sets import CAMERA, FPS, INSTRUCTIONS, LENGTHS, column, content, episode_rows, faults, rows, same


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
