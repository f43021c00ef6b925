"""Clean operators succeed and differ; faults are executed in the frames that the ground truth names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptr_robot.envs import demonstration as demonstration_module
from ptr_robot.envs.base import StepLimits
from ptr_robot.envs.manner import Operator
from ptr_robot.envs.operators import OPERATORS, OperatorConfig
from ptr_robot.envs.performance import DemonstrationSeeds
from ptr_robot.envs.scripted import Workplace
from tests.envs.conftest import CAMERA, METAWORLD

SEEDS = DemonstrationSeeds(layout=11, operator=22)
CLEAN = [name for name, config in OPERATORS.items() if not config.is_faulty]
FAULTY = [name for name, config in OPERATORS.items() if config.is_faulty]


def demonstrate(environment, *arguments, **settings):
    return demonstration_module.demonstrate(Workplace.of(METAWORLD, environment), *arguments, **settings)


def hands(demonstration) -> np.ndarray:  # (N, 3)
    return demonstration.states["observation.state"][:, :3]


class StillExpert:
    """Wants to move as fast as it can along one axis, from wherever its hand is; no object is near."""

    hand = np.full(3, 0.3)

    def act(self, hand):
        return np.array([1.0, 0.0, 0.0, -1.0])

    def is_near_object(self, hand):
        return False


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
    direct = hands(demonstrate(reach, replace(OPERATORS["sweeping"], bow=(0.0, 0.0)), SEEDS))
    bowed = hands(shown["sweeping"])
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
    path = hands(demonstration)[fault.first_frame : fault.last_frame + 1]
    distances = np.linalg.norm(path - path[0], axis=1)
    assert distances.max() > 0.07
    assert distances[-1] < 0.04


def test_a_missed_grasp_closes_beside_the_puck_and_is_tried_again(pick_place):
    demonstration = demonstrate(pick_place, OPERATORS["fumbling"], SEEDS)
    (fault,) = demonstration.faults
    marked = slice(fault.first_frame, fault.last_frame + 1)
    heights = demonstration.states["observation.environment_state"][:, 6]
    lifted = heights[marked].max() - heights[0]
    assert lifted < 0.01
    assert demonstration.is_success
    assert heights[fault.last_frame :].max() > 0.04


def test_who_gives_up_ends_with_the_fault(pick_place):
    demonstration = demonstrate(pick_place, OPERATORS["quitting"], SEEDS)
    assert demonstration.faults[-1].last_frame == demonstration.num_frames - 1
    assert not demonstration.is_success


@pytest.mark.parametrize("task", ["reach", "pick_place"])
def test_matched_lengths_bring_clean_and_faulty_together(task, request):
    """The length is drawn for the seeds and not for the operator, so a clean and a faulty episode get the same one."""
    environment = request.getfixturevalue(task)

    def lengths(config: OperatorConfig, match_lengths: bool) -> np.ndarray:
        seeds = [DemonstrationSeeds(layout, layout) for layout in range(2)]
        return np.array([demonstrate(environment, config, s, match_lengths=match_lengths).num_frames for s in seeds])

    clean, faulty = OPERATORS["brisk"], OPERATORS["hesitant"]
    assert (lengths(faulty, False) > 1.3 * lengths(clean, False)).all()
    np.testing.assert_allclose(lengths(faulty, True), lengths(clean, True), rtol=0.12)


def test_pauses_are_short_spread_and_as_many_as_asked():
    config = OperatorConfig(bow=(0.0, 0.0), noise=(0.0, 0.0), rests=(0, 0), tremor=(0.0, 0.0))
    operator = Operator(config, StillExpert(), seed=3)
    operator.expect(90, num_pause_frames=45)
    actions = np.stack([operator.intend(StillExpert.hand, np.zeros(4, dtype=np.float32)) for _ in range(135)])
    is_pause = ~actions[:, :3].any(axis=1)
    assert is_pause.sum() == 45
    assert all(third.sum() >= 10 for third in np.split(is_pause, 3))
    runs = "".join("x" if pause else " " for pause in is_pause).split()
    assert max(map(len, runs)) <= 6


def test_a_clean_hand_trembles_by_its_tremor():
    still = OperatorConfig(bow=(0.0, 0.0), noise=(0.0, 0.0), rests=(0, 0), tremor=(0.0, 0.0))
    trembling = replace(still, tremor=(0.05, 0.05))
    far = StillExpert.hand
    still_hand, trembling_hand = (Operator(config, StillExpert(), 3, speed=0.5) for config in (still, trembling))
    nothing = np.zeros(4, dtype=np.float32)
    noise = np.stack([trembling_hand.intend(far, nothing) - still_hand.intend(far, nothing) for _ in range(2000)])
    assert noise[:, :3].std() == pytest.approx(0.05, rel=0.05)
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 0.08


@pytest.mark.parametrize("cameras", [(), (CAMERA,)])
def test_a_clean_operator_who_never_succeeds_leaves_no_good_episode(cameras, reach):
    workplace = replace(Workplace.of(METAWORLD, reach), limits=StepLimits(usual=6, most=6))
    demonstration = demonstration_module.demonstrate(workplace, OPERATORS["steady"], SEEDS, cameras)
    assert [len(images) for images in demonstration.images.values()] == [6] * len(cameras)
    assert not demonstration.is_success
    (fault,) = demonstration.faults
    assert (fault.kind, fault.first_frame, fault.last_frame) == ("not_completed", 0, 5)
