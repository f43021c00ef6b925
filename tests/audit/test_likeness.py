from __future__ import annotations

import numpy as np

from ptr_robot.audit.page.likeness import most_similar_frame, weakest_chunks


def test_the_weakest_chunks_are_found_worst_first_and_apart():
    evidence = np.full(200, 0.9, dtype=np.float32)
    evidence[40:56] = 0.02
    evidence[120:136] = 0.001
    chosen = weakest_chunks({"a": evidence}, chunk_length=16, threshold=0.05, at_most=3)
    assert chosen == [120, 40]


def test_an_episode_without_weak_frames_has_no_weak_chunk():
    evidence = {"a": np.full(50, 0.5, dtype=np.float32), "b": np.full(50, np.nan, dtype=np.float32)}
    assert weakest_chunks(evidence, chunk_length=16, threshold=0.05, at_most=3) == []
    assert weakest_chunks({}, chunk_length=16, threshold=0.05, at_most=3) == []


def test_an_episode_shorter_than_a_chunk_has_one():
    evidence = {"a": np.full(5, 0.01, dtype=np.float32)}
    assert weakest_chunks(evidence, chunk_length=16, threshold=0.05, at_most=3) == [0]


def test_the_most_similar_frame_is_nearest_in_state():
    others = np.stack([np.linspace(0, 1, 101), np.zeros(101)], axis=1)
    scale = others.std(axis=0) + 1e-6
    assert most_similar_frame(np.array([0.3, 0.0]), 0.3, others, scale, offset=16) == 30
    assert most_similar_frame(np.array([1.0, 0.0]), 1.0, others, scale, offset=16) == 84  # its consequence must follow


def test_of_equal_states_the_one_at_the_same_time_is_taken():
    others = np.concatenate([np.linspace(0, 1, 51), np.linspace(1, 0, 51)])[:, None]  # there and back
    scale = others.std(axis=0)
    early = most_similar_frame(np.array([0.5]), 0.2, others, scale, offset=8)
    late = most_similar_frame(np.array([0.5]), 0.8, others, scale, offset=8)
    assert early < 51 < late
