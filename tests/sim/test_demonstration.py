"""Clean operators succeed and differ; faults are executed in the frames that the ground truth names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptr_robot.sim.demonstration import DemonstrationSeeds, demonstrate
from ptr_robot.sim.operators import OPERATORS, OperatorConfig

SEEDS = DemonstrationSeeds(layout=11, operator=22)
CLEAN = [name for name, config in OPERATORS.items() if not config.is_faulty]
FAULTY = [name for name, config in OPERATORS.items() if config.is_faulty]


def in_faults(demonstration) -> np.ndarray:
    mask = np.zeros(demonstration.num_frames, dtype=bool)
    for fault in demonstration.faults:
        mask[fault.first_frame : fault.last_frame + 1] = True
    return mask


@pytest.mark.parametrize("name", CLEAN)
def test_clean_operators_succeed_without_faults(name, reach, pick_place):
    for environment in (reach, pick_place):
        demonstration = demonstrate(environment, OPERATORS[name], SEEDS)
        assert demonstration.is_success
        assert demonstration.faults == ()
        assert np.abs(demonstration.actions).max() <= 1.0


def test_clean_operators_differ_in_speed_and_path(reach):
    shown = {name: demonstrate(reach, OPERATORS[name], SEEDS) for name in CLEAN}
    assert shown["careful"].num_frames > 1.2 * shown["brisk"].num_frames
    direct = demonstrate(reach, replace(OPERATORS["sweeping"], bow=(0.0, 0.0)), SEEDS).states[:, :3]
    bowed = shown["sweeping"].states[:, :3]
    gaps = np.linalg.norm(bowed[:, None] - direct[None], axis=-1).min(axis=1)  # (N,) to the nearest point
    assert gaps.max() > 0.01
    assert gaps[-1] < gaps.max()


def test_an_episode_is_fixed_by_its_seeds(reach):
    first = demonstrate(reach, OPERATORS["poor"], SEEDS)
    second = demonstrate(reach, OPERATORS["poor"], SEEDS)
    other = demonstrate(reach, OPERATORS["poor"], replace(SEEDS, operator=23))
    np.testing.assert_array_equal(first.actions, second.actions)
    assert first.faults == second.faults
    assert other.actions.shape != first.actions.shape or np.abs(other.actions - first.actions).max() > 0.01


@pytest.mark.parametrize("name", FAULTY)
def test_faults_change_the_marked_frames_and_none_before_them(name, reach):
    """Until its first fault a faulty operator does exactly what it does without faults."""
    config = OPERATORS[name]
    faulty = demonstrate(reach, config, SEEDS)
    sound = demonstrate(reach, replace(config, faults=()), SEEDS)
    assert {fault.kind for fault in faulty.faults} <= set(config.faults)
    assert faulty.faults
    first, last = faulty.faults[0].first_frame, faulty.faults[0].last_frame
    assert 0 < first <= last < faulty.num_frames
    np.testing.assert_array_equal(faulty.actions[:first], sound.actions[:first])
    common = min(last + 1, sound.num_frames)
    assert np.abs(faulty.actions[first:common] - sound.actions[first:common]).max() > 0.05


def test_jitter_shakes_the_marked_frames_alone(reach):
    demonstration = demonstrate(reach, OPERATORS["jittery"], SEEDS)
    is_marked = in_faults(demonstration)[1:]
    shaking = np.linalg.norm(np.diff(demonstration.actions[:, :3], axis=0), axis=1)
    assert np.median(shaking[is_marked]) > 5 * np.median(shaking[~is_marked])


def test_hesitation_stands_still_in_the_marked_frames(pick_place):
    demonstration = demonstrate(pick_place, OPERATORS["hesitant"], SEEDS)
    speeds = np.linalg.norm(demonstration.actions[:, :3], axis=1)
    is_marked = in_faults(demonstration)
    assert speeds[is_marked].max() < 0.26
    assert speeds[~is_marked].mean() > 0.4
    assert len(demonstration.faults) >= 2


def test_a_detour_leaves_and_returns(reach):
    demonstration = demonstrate(reach, OPERATORS["wandering"], SEEDS)
    (fault,) = demonstration.faults
    path = demonstration.states[fault.first_frame : fault.last_frame + 1, :3]
    distances = np.linalg.norm(path - path[0], axis=1)
    assert distances.max() > 0.07
    assert distances[-1] < 0.04


def test_a_missed_grasp_closes_beside_the_puck_and_is_tried_again(pick_place):
    demonstration = demonstrate(pick_place, OPERATORS["fumbling"], SEEDS)
    (fault,) = demonstration.faults
    marked = slice(fault.first_frame, fault.last_frame + 1)
    lifted = demonstration.environment_states[marked, 6].max() - demonstration.environment_states[0, 6]
    assert lifted < 0.01
    assert demonstration.is_success
    assert demonstration.environment_states[fault.last_frame :, 6].max() > 0.04


def test_who_gives_up_ends_with_the_fault(pick_place):
    demonstration = demonstrate(pick_place, OPERATORS["quitting"], SEEDS)
    assert demonstration.faults[-1].last_frame == demonstration.num_frames - 1
    assert not demonstration.is_success


def test_matched_lengths_bring_clean_and_faulty_together(reach):
    """Without matching a hesitant operator takes longer on average than a brisk one by far."""

    def mean_length(config: OperatorConfig, match_lengths: bool) -> float:
        seeds = [DemonstrationSeeds(layout, layout) for layout in range(2)]
        return float(np.mean([demonstrate(reach, config, s, match_lengths=match_lengths).num_frames for s in seeds]))

    clean, faulty = OPERATORS["brisk"], OPERATORS["hesitant"]
    unmatched = mean_length(faulty, False) / mean_length(clean, False)
    matched = mean_length(faulty, True) / mean_length(clean, True)
    assert unmatched > 1.4
    assert 0.85 < matched < 1.18
