"""Segment plans and whole batches against plain loops over the raw files."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ptr_robot.data.config import DataConfig, SourceConfig
from ptr_robot.data.segments.cutting import SegmentLayout
from ptr_robot.data.segments.dataset import SegmentDataset
from tests.data.v21_writer import CAMERA, LENGTHS, TASKS, episode_values


@st.composite
def layouts(draw):
    low = draw(st.integers(1, 12))
    high = draw(st.sampled_from([low, low + 3]))
    return SegmentLayout(draw(st.integers(1, 6)), draw(st.integers(1, 4)), draw(st.integers(1, 5)), (low, high), 3)


@given(layouts(), st.integers(1, 40), st.data())
def test_plan_by_plain_loops(layout, length, data):
    start = data.draw(st.integers(0, length - 1))
    plan = layout.plan(start, length, first_sample_id=1000)
    assert plan.frame_rows.shape == (layout.num_frames,)
    assert ((plan.frame_rows >= 0) & (plan.frame_rows < length)).all()
    for chunk in range(layout.num_chunks):
        begin = start + chunk * layout.chunk_length
        current = min(begin, length - 1)
        offset = plan.offset_steps[chunk]
        assert layout.offset_range[0] <= offset <= layout.offset_range[1]
        assert plan.chunk_is_pad[chunk] == (begin >= length)
        assert plan.has_target[chunk] == (begin + offset <= length - 1)
        assert plan.state_rows[chunk] == current
        assert plan.frame_rows[plan.current_frame[chunk]] == current
        future = begin + offset if begin + offset < length else current
        assert plan.future_rows[chunk] == future
        assert plan.frame_rows[plan.future_frame[chunk]] == future
        for step in range(layout.chunk_length):
            assert plan.action_is_pad[chunk, step] == (begin + step >= length)
            assert plan.action_rows[chunk, step] == min(begin + step, length - 1)


@given(st.integers(1, 60), st.integers(1, 9))
def test_a_segment_starts_at_every_strideth_frame(length, stride):
    layout = SegmentLayout(4, 2, stride, (4, 4))
    assert layout.segments_in(length) == len(range(0, length, stride))


def test_one_chunk_offsets_share_frames():
    shared, apart = SegmentLayout(4, 3, 1, (4, 4)), SegmentLayout(4, 3, 1, (5, 5))
    assert (shared.num_frames, apart.num_frames) == (4, 6)
    assert shared.plan(2, 100, 0).frame_rows.tolist() == [2, 6, 10, 14]


def test_drawn_offsets_belong_to_the_sample():
    """A chunk has the same Δ in whichever segment it stands, and all values of the range occur."""
    layout = SegmentLayout(4, 2, 1, (2, 6), seed=7)
    offsets = np.array([layout.plan(start, 500, 0).offset_steps for start in range(300)])
    np.testing.assert_array_equal(offsets[4:, 0], offsets[:-4, 1])
    assert set(offsets.ravel()) == {2, 3, 4, 5, 6}
    other = SegmentLayout(4, 2, 1, (2, 6), seed=8)
    assert (other.plan(0, 500, 0).offset_steps != offsets[0]).any() or (
        other.plan(8, 500, 0).offset_steps != offsets[8]
    ).any()


def open_dataset(root, cache_dir, **settings) -> SegmentDataset:
    settings = {"chunk_length": 6, "num_chunks": 3, "stride": 4, "image_size": 32} | settings
    source = SourceConfig(str(root), normaliser="mean_std")
    return SegmentDataset(DataConfig([source], cache_dir=str(cache_dir), **settings), seed=1)


def unified(values):
    """Meta-World's map, by hand: position in 0 to 3, gripper in 18."""
    out = np.zeros(200)
    out[0:3], out[18] = values[:3], values[3]
    return out


@pytest.mark.parametrize("version", ["v21", "v30"])
@pytest.mark.parametrize("offsets", [{}, {"offset_steps": 9}, {"offset_steps": 3, "offset_steps_max": 11}])
def test_batch_by_plain_loops_from_the_raw_values(version, offsets, request, tmp_path):
    dataset = open_dataset(request.getfixturevalue(version), tmp_path, image_size=0, **offsets)
    raw = [episode_values(episode, length) for episode, length in enumerate(LENGTHS)]
    every_state = np.concatenate([states for states, _ in raw]).astype("f8")
    every_action = np.concatenate([actions for _, actions in raw]).astype("f8")
    firsts = np.cumsum([0, *LENGTHS])
    batch = dataset[range(len(dataset))]
    assert batch.frames.shape == (len(dataset), dataset.layout.num_frames, 0, 3, 0, 0)
    number = 0
    for episode, length in enumerate(LENGTHS):
        states = (raw[episode][0] - every_state.mean(0)) / every_state.std(0)
        actions = (raw[episode][1] - every_action.mean(0)) / every_action.std(0)
        for start in range(0, length, 4):
            assert batch.episode_id[number] == episode
            assert batch.instructions[number] == TASKS[episode % 2]
            for chunk in range(3):
                begin = start + 6 * chunk
                here = min(begin, length - 1)
                ahead = begin + int(batch.offset_steps[number, chunk])
                assert bool(batch.has_target[number, chunk]) == (ahead < length)
                assert batch.sample_id[number, chunk] == (firsts[episode] + begin if begin < length else -1)
                np.testing.assert_allclose(batch.states[number, chunk], unified(states[here]), atol=1e-5)
                then = ahead if ahead < length else here
                np.testing.assert_allclose(batch.future_states[number, chunk], unified(states[then]), atol=1e-5)
                for step in range(6):
                    row = min(begin + step, length - 1)
                    got = batch.actions[number, chunk, step]
                    np.testing.assert_allclose(got, unified(actions[row]), atol=1e-5)
                    assert bool(batch.action_is_pad[number, chunk, step]) == (begin + step >= length)
            number += 1
    assert number == len(dataset)
    assert batch.state_mask[0].nonzero().ravel().tolist() == [0, 1, 2, 18]
    assert torch.equal(batch.state_mask, batch.action_mask)


def test_frames_are_those_that_lerobot_decodes(v21, v30, tmp_path):
    """Same pixels in both versions, and equal to LeRobot's decoder at the frame's own time (no resize here)."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    theirs = LeRobotDataset("owner/cubes", root=v30, video_backend="pyav")
    old = open_dataset(v21, tmp_path, image_size=64)
    new = open_dataset(v30, tmp_path, image_size=64)
    for number in (0, 9, 17, len(old) - 3):
        batch, same = old[[number]], new[[number]]
        assert torch.equal(batch.frames, same.frames)
        for chunk in range(3):
            if not batch.has_target[0, chunk]:
                continue
            for frame, ahead in ((batch.current_frame, 0), (batch.future_frame, 6)):
                item = theirs[int(batch.sample_id[0, chunk]) + ahead][CAMERA]  # (3, 48, 64) in 0 to 1
                ours = batch.frames[0, frame[0, chunk], 0]
                assert torch.equal(ours[:, 8:56], (item * 255).round().to(torch.uint8))
                assert not ours[:, :8].any()
                assert not ours[:, 56:].any()


def test_batch_moves_as_one(v21, tmp_path):
    batch = open_dataset(v21, tmp_path, image_size=0)[[0, 5]]
    moved = batch.to("cpu")
    assert torch.equal(moved.actions, batch.actions)
    assert moved.instructions == batch.instructions
    assert (batch.batch_size, batch.num_chunks) == (2, 3)
