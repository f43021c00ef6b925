"""Rare rather than wrong: sessions that differ and starts that nobody else has."""

from __future__ import annotations

import numpy as np

from ptr_robot.method.scoring.rarity import benefit_of_doubt, differing_sessions, start_novelty

from .made_recordings import make_recordings, reach, replace_episodes


def flags(total: int, *places: int) -> np.ndarray:
    found = np.zeros(total, dtype=np.bool_)
    found[list(places)] = True
    return found


def test_a_run_among_unsuspicious_ones_is_a_session() -> None:
    assert differing_sessions(flags(60, *range(5, 12), 40)) == [(5, 11)]


def test_suspicious_ones_all_over_are_no_session() -> None:
    generator = np.random.default_rng(0)
    assert differing_sessions(generator.uniform(size=80) < 0.5) == []


def test_two_neighbours_are_no_session() -> None:
    assert differing_sessions(flags(60, 5, 6)) == []


def test_half_of_the_dataset_is_no_session() -> None:
    assert differing_sessions(flags(20, *range(12))) == []


def test_a_start_that_nobody_has_is_novel() -> None:
    recordings = make_recordings(20, num_tasks=1)
    far = reach(3, 0)
    moved = replace_episodes(recordings, {3: type(far)(far.states + 3.0, far.actions, 0)})
    novelty = start_novelty(moved, moved.tasks, np.ones(20, dtype=np.bool_))
    doubt = benefit_of_doubt(novelty)
    assert doubt[3] == 1.0
    assert (np.delete(doubt, 3) < 0.5).all()
